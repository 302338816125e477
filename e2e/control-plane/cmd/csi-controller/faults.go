package main

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

type operation string

const (
	attachOperation operation = "Attach"
	detachOperation operation = "Detach"
)

// fault is how one operation misbehaves. The zero value is health. Delay, hang and failure happen in this order.
type fault struct {
	// DelayMs is the time a call takes before it has its effect.
	DelayMs int64 `json:"delay_ms"`
	// Hang keeps a call until the faults are changed or its caller gives up.
	Hang bool `json:"hang"`
	// Fail makes calls fail with Message: so many of them, or all while it is negative.
	Fail    int64  `json:"fail"`
	Message string `json:"message"`
	// Volume limits the fault to one volume; empty is all.
	Volume string `json:"volume"`
}

type faults struct {
	Attach fault `json:"attach"`
	Detach fault `json:"detach"`
}

func (f *faults) of(op operation) *fault {
	if op == attachOperation {
		return &f.Attach
	}
	return &f.Detach
}

// setFaults replaces all faults and wakes the calls that hang; those then look at the new ones.
func (a *array) setFaults(f faults) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.faults = f
	close(a.changed)
	a.changed = make(chan struct{})
}

// suffer applies the faults to a call that is about to have its effect. It ends without the lock held.
func (a *array) suffer(ctx context.Context, op operation, volume, node string) error {
	delayed := false
	hung := false
	for {
		a.mu.Lock()
		f := a.faults.of(op)
		if f.Volume != "" && f.Volume != volume {
			a.mu.Unlock()
			return nil
		}
		delay, hang, changed := f.DelayMs, f.Hang, a.changed
		switch {
		case delay > 0 && !delayed:
			a.record(string(op)+"Delayed", volume, node, (time.Duration(delay) * time.Millisecond).String())
		case hang && !hung:
			a.record(string(op)+"Hangs", volume, node, "")
		case !hang && f.Fail != 0:
			if f.Fail > 0 {
				f.Fail--
			}
			message := f.Message
			a.record(string(op)+"Failed", volume, node, message)
			a.mu.Unlock()
			return status.Error(codes.Internal, message)
		}
		a.mu.Unlock()

		switch {
		case delay > 0 && !delayed:
			delayed = true
			// Not shortened when the caller gives up: the array goes on, and a retry finds it done.
			time.Sleep(time.Duration(delay) * time.Millisecond)
		case hang:
			hung = true
			select {
			case <-changed:
			case <-ctx.Done():
				return status.FromContextError(ctx.Err()).Err()
			}
		default:
			return nil
		}
	}
}
