// Command flux-apply applies what standard input has as a Kustomization of Flux does in one of its rounds: with its library, as its field
// manager, with its labels, and with its list of field managers whose fields it takes over. Of each object it says what it did. With the argument
// status it applies nothing and says of each object, as the cluster has it, what Flux waits by: its kstatus.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/fluxcd/pkg/ssa"
	"github.com/fluxcd/pkg/ssa/normalize"
	ssautil "github.com/fluxcd/pkg/ssa/utils"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	controller = "kustomize-controller"
	group      = "kustomize.toolkit.fluxcd.io"
)

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	objects, err := ssautil.ReadObjects(os.Stdin)
	if err != nil {
		return err
	}
	if len(os.Args) == 2 && os.Args[1] == "status" {
		return compute(objects)
	}
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return err
	}
	api, err := client.New(config, client.Options{})
	if err != nil {
		return err
	}
	if err := normalize.UnstructuredList(objects); err != nil {
		return err
	}
	manager := ssa.NewResourceManager(api, nil, ssa.Owner{Field: controller, Group: group})
	manager.SetOwnerLabels(objects, "node-fencing", "flux-system")
	changes, err := manager.ApplyAllStaged(ctx, objects, options())
	if err != nil {
		return err
	}
	for _, change := range changes.Entries {
		fmt.Printf("%s %s\n", change.Subject, change.Action)
	}
	return nil
}

// compute says the kstatus of each object.
func compute(objects []*unstructured.Unstructured) error {
	for _, object := range objects {
		result, err := status.Compute(object)
		if err != nil {
			return err
		}
		fmt.Printf("%s %s\n", object.GetName(), result.Status)
	}
	return nil
}

// options are those of kustomize-controller for a Kustomization with nothing but a path.
func options() ssa.ApplyOptions {
	options := ssa.DefaultApplyOptions()
	managers := []ssa.FieldManager{{Name: "kubectl", OperationType: metav1.ManagedFieldsOperationApply}}
	for _, name := range []string{"kubectl", "before-first-apply", controller} {
		managers = append(managers, ssa.FieldManager{Name: name, OperationType: metav1.ManagedFieldsOperationUpdate})
	}
	options.Cleanup = ssa.ApplyCleanupOptions{
		Annotations:   []string{corev1.LastAppliedConfigAnnotation},
		FieldManagers: managers,
		Exclusions:    map[string]string{group + "/ssa": "Merge"},
	}
	return options
}
