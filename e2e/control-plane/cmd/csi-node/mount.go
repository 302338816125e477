package main

import (
	"bufio"
	"context"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// hangPoll is how often a hung unmount looks whether it may go on.
const hangPoll = 100 * time.Millisecond

// bind makes source visible at target. A target that is a mount already is left as it is: CSI calls are repeated.
func bind(source, target string) error {
	if err := os.MkdirAll(target, 0o750); err != nil {
		return err
	}
	done, err := mounted(target)
	if err != nil || done {
		return err
	}
	return unix.Mount(source, target, "", unix.MS_BIND, "")
}

// unbind takes every mount off target, once unmounting works on this node.
func (d *driver) unbind(ctx context.Context, target string) error {
	for d.hung() {
		select {
		case <-ctx.Done():
			return status.FromContextError(ctx.Err()).Err()
		case <-time.After(hangPoll):
		}
	}
	for {
		more, err := mounted(target)
		if err != nil || !more {
			return err
		}
		if err := unix.Unmount(target, 0); err != nil {
			return status.Errorf(codes.Internal, "unmount %s: %v", target, err)
		}
	}
}

// hung says whether the lab has made unmounting hang.
func (d *driver) hung() bool {
	if d.hang == "" {
		return false
	}
	_, err := os.Stat(d.hang)
	return err == nil
}

// mounted says whether path is a mount point. Comparing device numbers does not tell for a bind mount.
func mounted(path string) (bool, error) {
	table, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return false, err
	}
	defer table.Close()
	lines := bufio.NewScanner(table)
	for lines.Scan() {
		// The fifth field is the mount point, as this process sees it.
		if fields := strings.Fields(lines.Text()); len(fields) > 4 && fields[4] == path {
			return true, nil
		}
	}
	return false, lines.Err()
}
