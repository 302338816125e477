package main

import (
	"context"
	"encoding/json"
	"errors"
	"log"
	"os"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// event is one thing that happened to a volume. The time is the array's, taken while it held its lock, so that the
// order of events is the order in which they took effect.
type event struct {
	At      time.Time `json:"at"`
	Kind    string    `json:"kind"`
	Volume  string    `json:"volume"`
	Node    string    `json:"node"`
	Message string    `json:"message,omitempty"`
}

// array is the storage: which nodes have which volume, what happened, and which faults are on.
type array struct {
	mu        sync.Mutex
	stateFile string
	attached  map[string][]string // volume to nodes, both as CSI names them
	events    []event
	faults    faults
	changed   chan struct{} // closed, and replaced, when the faults change: it wakes the calls that hang
}

func openArray(stateFile string) (*array, error) {
	a := &array{stateFile: stateFile, attached: map[string][]string{}, events: []event{}, changed: make(chan struct{})}
	text, err := os.ReadFile(stateFile)
	if errors.Is(err, os.ErrNotExist) {
		return a, nil
	}
	if err != nil {
		return nil, err
	}
	return a, json.Unmarshal(text, &a.attached)
}

// attach gives the volume to the node, unless another node has it. Idempotent.
func (a *array) attach(ctx context.Context, volume, node string, shared bool) error {
	if err := a.suffer(ctx, attachOperation, volume, node); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	nodes := a.attached[volume]
	if slices.Contains(nodes, node) {
		return nil
	}
	if len(nodes) > 0 && !shared {
		a.record("AttachRefused", volume, node, "attached to "+nodes[0])
		return status.Errorf(codes.FailedPrecondition, "volume %s is attached to node %s", volume, nodes[0])
	}
	a.attached[volume] = append(nodes, node)
	a.record("Attached", volume, node, "")
	return a.save()
}

// detach takes the volume from the node, whatever the node is doing with it: a storage array does not ask. Idempotent.
func (a *array) detach(ctx context.Context, volume, node string) error {
	if err := a.suffer(ctx, detachOperation, volume, node); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	nodes := a.attached[volume]
	at := slices.Index(nodes, node)
	if at < 0 {
		return nil
	}
	a.attached[volume] = slices.Delete(nodes, at, at+1)
	if len(a.attached[volume]) == 0 {
		delete(a.attached, volume)
	}
	a.record("Detached", volume, node, "")
	return a.save()
}

// record wants the lock held.
func (a *array) record(kind, volume, node, message string) {
	a.events = append(a.events, event{At: time.Now().UTC(), Kind: kind, Volume: volume, Node: node, Message: message})
	log.Printf("%s volume=%s node=%s %s", kind, volume, node, message)
}

// save wants the lock held. By rename, so that a kill in between leaves the old file.
func (a *array) save() error {
	text, err := json.Marshal(a.attached)
	if err != nil {
		return status.Error(codes.Internal, err.Error())
	}
	if err := os.WriteFile(a.stateFile+".new", text, 0o600); err != nil {
		return status.Error(codes.Internal, err.Error())
	}
	if err := os.Rename(a.stateFile+".new", a.stateFile); err != nil {
		return status.Error(codes.Internal, err.Error())
	}
	return nil
}
