// Command control-plane is every Kubernetes process of the lab in one binary:
//
//	control-plane etcd|kube-apiserver|kube-controller-manager|kube-scheduler|kubelet [flags]
//
// One link instead of five, and all of them from one module graph, so that a cold build fits into minutes. Each
// component is upstream's own command, unchanged: whatever the lab shows, Kubernetes did.
package main

import (
	"context"
	"fmt"
	"os"
	_ "time/tzdata" // CronJobs name time zones; a container image may have none

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // rest_client_* metrics
	_ "k8s.io/component-base/metrics/prometheus/version"  // kubernetes_build_info
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

const usage = "usage: control-plane etcd|kube-apiserver|kube-controller-manager|kube-scheduler|kubelet [flags]"

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, usage)
		os.Exit(2)
	}
	os.Args = os.Args[1:] // each component expects its own name in front of its flags
	var command *cobra.Command
	switch os.Args[0] {
	case "etcd":
		etcdmain.Main(os.Args)
		return
	case "kube-apiserver":
		command = apiserver.NewAPIServerCommand()
	case "kube-controller-manager":
		command = controllermanager.NewControllerManagerCommand()
	case "kube-scheduler":
		command = scheduler.NewSchedulerCommand()
	case "kubelet":
		command = kubeletCommand(kubelet.NewKubeletCommand)
	default:
		fmt.Fprintf(os.Stderr, "control-plane: unknown component %q\n%s\n", os.Args[0], usage)
		os.Exit(2)
	}
	os.Exit(cli.Run(command))
}

// kubeletCommand calls upstream's constructor, which takes a context since Kubernetes 1.34.
func kubeletCommand(constructor any) *cobra.Command {
	if withContext, ok := constructor.(func(context.Context) *cobra.Command); ok {
		return withContext(context.Background())
	}
	return constructor.(func() *cobra.Command)()
}
