package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// imageName is how pods and containerd's configuration name the image. It is imported, never pulled.
const imageName = "nodefencing.io/lab-writer:1"

const (
	indexType    = "application/vnd.oci.image.index.v1+json"
	manifestType = "application/vnd.oci.image.manifest.v1+json"
	configType   = "application/vnd.oci.image.config.v1+json"
	layerType    = "application/vnd.oci.image.layer.v1.tar"
)

// descriptor is the OCI image specification's reference to a blob.
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// archive is an OCI image layout in a tar file, built in memory: it holds one binary of a few megabytes.
type archive struct {
	buffer bytes.Buffer
	tar    *tar.Writer
}

// image packs the running binary as /writer and entry point of an image with nothing else in it.
func image(path string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	binary, err := os.ReadFile(self)
	if err != nil {
		return err
	}
	layer, err := layerOf(binary)
	if err != nil {
		return err
	}
	a := &archive{}
	a.tar = tar.NewWriter(&a.buffer)
	layerAt, err := a.blob(layerType, layer)
	if err != nil {
		return err
	}
	configAt, err := a.json(configType, map[string]any{
		"architecture": runtime.GOARCH, "os": "linux",
		"config": map[string]any{"Entrypoint": []string{"/writer"}, "StopSignal": unix.SignalName(stopSignal)},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{layerAt.Digest}},
	})
	if err != nil {
		return err
	}
	manifestAt, err := a.json(manifestType, map[string]any{
		"schemaVersion": 2, "mediaType": manifestType, "config": configAt, "layers": []descriptor{layerAt},
	})
	if err != nil {
		return err
	}
	if err := a.index(manifestAt); err != nil {
		return err
	}
	return os.WriteFile(path, a.buffer.Bytes(), 0o644)
}

// layerOf is the file system of the image: the binary, and the places where pods mount things.
func layerOf(binary []byte) ([]byte, error) {
	var buffer bytes.Buffer
	layer := tar.NewWriter(&buffer)
	for _, directory := range []string{"etc/", "tmp/", "data/"} {
		if err := layer.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: directory, Mode: 0o777}); err != nil {
			return nil, err
		}
	}
	if err := file(layer, "writer", 0o755, binary); err != nil {
		return nil, err
	}
	if err := layer.Close(); err != nil {
		return nil, err
	}
	return buffer.Bytes(), nil
}

// index writes the layout's last two files, in which containerd finds the manifest and its name.
func (a *archive) index(manifest descriptor) error {
	manifest.Annotations = map[string]string{"io.containerd.image.name": imageName}
	index, err := json.Marshal(map[string]any{
		"schemaVersion": 2, "mediaType": indexType, "manifests": []descriptor{manifest},
	})
	if err != nil {
		return err
	}
	if err := file(a.tar, "index.json", 0o644, index); err != nil {
		return err
	}
	if err := file(a.tar, "oci-layout", 0o644, []byte(`{"imageLayoutVersion":"1.0.0"}`)); err != nil {
		return err
	}
	return a.tar.Close()
}

func (a *archive) json(mediaType string, value any) (descriptor, error) {
	content, err := json.Marshal(value)
	if err != nil {
		return descriptor{}, err
	}
	return a.blob(mediaType, content)
}

func (a *archive) blob(mediaType string, content []byte) (descriptor, error) {
	sum := sha256.Sum256(content)
	digest := hex.EncodeToString(sum[:])
	at := descriptor{MediaType: mediaType, Digest: "sha256:" + digest, Size: len(content)}
	return at, file(a.tar, "blobs/sha256/"+digest, 0o644, content)
}

func file(to *tar.Writer, name string, mode int64, content []byte) error {
	if err := to.WriteHeader(&tar.Header{Name: name, Mode: mode, Size: int64(len(content))}); err != nil {
		return err
	}
	_, err := to.Write(content)
	return err
}
