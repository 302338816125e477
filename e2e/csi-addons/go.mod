// The real controller and sidecar of CSI-Addons, and the storage's side of them, which is ours. Everything is pinned here and in go.sum.
module nodefencing.io/e2e/csiaddons

go 1.26.3

tool (
	github.com/csi-addons/kubernetes-csi-addons/cmd/manager
	github.com/csi-addons/kubernetes-csi-addons/sidecar
)

require github.com/csi-addons/kubernetes-csi-addons v0.13.0
