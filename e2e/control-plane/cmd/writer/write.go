package main

import (
	"fmt"
	"os"
	"os/signal"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// period is how often a container writes; the volume oracle counts on it.
const period = 20 * time.Millisecond

// container is who writes, in the words of the volume oracle.
type container struct {
	node, boot, pod string
	sequence        uint64
	file            *os.File
}

// write appends a line to the file every 20 ms, until it is asked to stop. One that ignores that goes on to the end of
// its grace period: it is the workload which finds a wrong order of fencing.
func write(path string, ignoreStop bool) error {
	boot, err := os.ReadFile("/boot_id") // a mount of the node's /run/boot_id
	if err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o666)
	if err != nil {
		return err
	}
	c := container{node: os.Getenv("NODE"), boot: strings.TrimSpace(string(boot)), pod: os.Getenv("POD_UID"), file: file}

	stop := make(chan os.Signal, 1)
	if !ignoreStop {
		signal.Notify(stop, stopSignal)
	}
	ticker := time.NewTicker(period)
	for {
		if err := c.append(); err != nil {
			return err
		}
		select {
		case <-stop:
			return nil
		case <-ticker.C:
		}
	}
}

// append writes one line by one call, so that the lines of several containers never mix.
func (c *container) append() error {
	var monotonic unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &monotonic); err != nil {
		return err
	}
	wall := time.Now().UTC().Format("2006-01-02T15:04:05.000000Z")
	line := fmt.Sprintf("%s mono=%d node=%s boot=%s pod=%s seq=%d\n", wall, monotonic.Nano(), c.node, c.boot, c.pod, c.sequence)
	c.sequence++
	_, err := c.file.WriteString(line)
	return err
}
