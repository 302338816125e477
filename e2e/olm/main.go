// Command olm-validate judges the bundle for OLM in a folder by operator-framework's own validators: those that `operator-sdk bundle validate` always
// runs, and beside them those for OperatorHub, for what lies in the bundle, and for good practices. It prints all that they find, and fails if one of
// it is an error.
package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/operator-framework/api/pkg/manifests"
	"github.com/operator-framework/api/pkg/validation"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(arguments []string) error {
	if len(arguments) != 1 {
		return errors.New("usage: olm-validate FOLDER")
	}
	bundle, err := manifests.GetBundleFromDir(arguments[0])
	if err != nil {
		return err
	}
	validators := validation.DefaultBundleValidators.WithValidators(
		validation.OperatorHubV2Validator,
		validation.StandardCapabilitiesValidator,
		validation.StandardCategoriesValidator,
		validation.ObjectValidator,
		validation.GoodPracticesValidator,
	)
	failed := false
	for _, result := range validators.Validate(bundle.ObjectsToValidate()...) {
		for _, finding := range append(result.Errors, result.Warnings...) {
			fmt.Println(finding)
		}
		failed = failed || result.HasError()
	}
	if failed {
		return errors.New("the bundle is not valid")
	}
	return nil
}
