// Command csi-node is the lab's CSI driver on a real node: the node half of the driver whose controller half the lab
// runs behind external-attacher.
//
// A volume is a directory of the host. Staging and publishing it are bind mounts, so they die with the machine's mount
// namespace as real mounts die with a machine. Like a real driver it finds no device for a volume that is not attached
// to this node. It registers itself with the kubelet, as a driver's node-driver-registrar would.
package main

import (
	"context"
	"errors"
	"flag"
	"io/fs"
	"log"
	"net"
	"os"
	"path/filepath"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// driver is what the command line says; all the state is in the mount table and in files.
type driver struct {
	csi.UnimplementedIdentityServer
	csi.UnimplementedNodeServer
	registration.UnimplementedRegistrationServer

	name string
	// node is the node ID, which is the Node's name.
	node string
	// volumes holds one directory for each volume, named after its handle.
	volumes string
	// attachments is the Unix socket on which the controller says what is attached where.
	attachments string
	// hang is a file; while it exists no unmount succeeds.
	hang string
	// socket is where the kubelet finds the CSI services.
	socket string
}

func main() {
	d := &driver{}
	kubelet := flag.String("kubelet-root", "/var/lib/kubelet", "the kubelet's `directory`")
	flag.StringVar(&d.name, "driver", "", "`name` of the CSI driver")
	flag.StringVar(&d.node, "node", "", "`name` of this node")
	flag.StringVar(&d.volumes, "volumes", "", "`directory` with one sub-directory for each volume")
	flag.StringVar(&d.attachments, "attachments", "", "Unix `socket` of the controller's list of attachments")
	flag.StringVar(&d.hang, "hang-file", "", "`file` that hangs every unmount while it exists")
	flag.Parse()
	log.SetFlags(log.Ltime | log.Lmicroseconds | log.LUTC)
	d.socket = filepath.Join(*kubelet, "plugins", d.name, "csi.sock")

	services := grpc.NewServer()
	csi.RegisterIdentityServer(services, d)
	csi.RegisterNodeServer(services, d)
	go serve(services, d.socket)

	registrar := grpc.NewServer()
	registration.RegisterRegistrationServer(registrar, d)
	serve(registrar, filepath.Join(*kubelet, "plugins_registry", d.name+"-reg.sock"))
}

// serve listens on a Unix socket, which an earlier boot may have left behind. It returns only by ending the process.
func serve(server *grpc.Server, socket string) {
	if err := os.MkdirAll(filepath.Dir(socket), 0o750); err != nil {
		log.Fatal(err)
	}
	if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
		log.Fatal(err)
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(server.Serve(listener))
}

// Registration with the kubelet.

func (d *driver) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{
		Type: registration.CSIPlugin, Name: d.name, Endpoint: d.socket, SupportedVersions: []string{"1.0.0"},
	}, nil
}

func (d *driver) NotifyRegistrationStatus(_ context.Context, s *registration.RegistrationStatus) (*registration.RegistrationStatusResponse, error) {
	log.Printf("registered=%v error=%q", s.PluginRegistered, s.Error)
	return &registration.RegistrationStatusResponse{}, nil
}

// Identity service.

func (d *driver) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: d.name, VendorVersion: "1"}, nil
}

func (d *driver) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{}, nil
}

func (d *driver) GetPluginCapabilities(context.Context, *csi.GetPluginCapabilitiesRequest) (*csi.GetPluginCapabilitiesResponse, error) {
	return &csi.GetPluginCapabilitiesResponse{}, nil
}

// Node service.

func (d *driver) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{NodeId: d.node}, nil
}

func (d *driver) NodeGetCapabilities(context.Context, *csi.NodeGetCapabilitiesRequest) (*csi.NodeGetCapabilitiesResponse, error) {
	stage := &csi.NodeServiceCapability_RPC{Type: csi.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME}
	return &csi.NodeGetCapabilitiesResponse{Capabilities: []*csi.NodeServiceCapability{
		{Type: &csi.NodeServiceCapability_Rpc{Rpc: stage}},
	}}, nil
}

func (d *driver) NodeStageVolume(ctx context.Context, r *csi.NodeStageVolumeRequest) (*csi.NodeStageVolumeResponse, error) {
	attached, err := d.attached(ctx, r.VolumeId)
	if err != nil {
		return nil, status.Errorf(codes.Unavailable, "cannot tell whether %s is attached: %v", r.VolumeId, err)
	}
	if !attached {
		return nil, status.Errorf(codes.NotFound, "no device: %s is not attached to %s", r.VolumeId, d.node)
	}
	source := filepath.Join(d.volumes, r.VolumeId)
	if err := os.MkdirAll(source, 0o777); err != nil {
		return nil, err
	}
	err = bind(source, r.StagingTargetPath)
	log.Printf("stage %s at %s error=%v", r.VolumeId, r.StagingTargetPath, err)
	return &csi.NodeStageVolumeResponse{}, err
}

func (d *driver) NodePublishVolume(_ context.Context, r *csi.NodePublishVolumeRequest) (*csi.NodePublishVolumeResponse, error) {
	staged, err := mounted(r.StagingTargetPath)
	if err != nil {
		return nil, err
	}
	if !staged {
		return nil, status.Errorf(codes.FailedPrecondition, "%s is not staged", r.VolumeId)
	}
	err = bind(r.StagingTargetPath, r.TargetPath)
	log.Printf("publish %s at %s error=%v", r.VolumeId, r.TargetPath, err)
	return &csi.NodePublishVolumeResponse{}, err
}

func (d *driver) NodeUnpublishVolume(ctx context.Context, r *csi.NodeUnpublishVolumeRequest) (*csi.NodeUnpublishVolumeResponse, error) {
	err := d.unbind(ctx, r.TargetPath)
	if err == nil {
		err = os.Remove(r.TargetPath)
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	log.Printf("unpublish %s at %s error=%v", r.VolumeId, r.TargetPath, err)
	return &csi.NodeUnpublishVolumeResponse{}, err
}

func (d *driver) NodeUnstageVolume(ctx context.Context, r *csi.NodeUnstageVolumeRequest) (*csi.NodeUnstageVolumeResponse, error) {
	err := d.unbind(ctx, r.StagingTargetPath)
	log.Printf("unstage %s at %s error=%v", r.VolumeId, r.StagingTargetPath, err)
	return &csi.NodeUnstageVolumeResponse{}, err
}
