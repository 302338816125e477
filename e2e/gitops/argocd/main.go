// The two parts of Argo CD that compare and apply, in one program: it is the one that its first argument names. The rest of Argo CD (server, Dex,
// notifications, ApplicationSets) has no part in that and is not built.
package main

import (
	"fmt"
	"os"

	controller "github.com/argoproj/argo-cd/v3/cmd/argocd-application-controller/commands"
	reposerver "github.com/argoproj/argo-cd/v3/cmd/argocd-repo-server/commands"
	"github.com/spf13/cobra"
)

func main() {
	program := &cobra.Command{Use: "argocd", SilenceUsage: true}
	program.AddCommand(controller.NewCommand(), reposerver.NewCommand())
	if err := program.Execute(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
