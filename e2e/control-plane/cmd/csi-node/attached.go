package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"slices"
	"time"
)

// attachedTimeout bounds one question to the controller, which answers from memory.
const attachedTimeout = 2 * time.Second

// attached asks the driver's controller half whether a volume is attached to this node. A storage fabric is reached by
// another way than the API server, so this works on a node that is cut off from the control plane.
func (d *driver) attached(ctx context.Context, volume string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, attachedTimeout)
	defer cancel()
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", d.attachments)
		},
	}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://controller/state", nil)
	if err != nil {
		return false, err
	}
	response, err := client.Do(request)
	if err != nil {
		return false, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return false, fmt.Errorf("the controller answered %s", response.Status)
	}
	var state struct {
		Attached map[string][]string `json:"attached"`
	}
	if err := json.NewDecoder(response.Body).Decode(&state); err != nil {
		return false, err
	}
	return slices.Contains(state.Attached[volume], d.node), nil
}
