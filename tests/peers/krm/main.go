// A KRM function on the framework of kustomize and kpt: puts the labels of its configuration on every item, or fails as it is told.
package main

import (
	"fmt"
	"os"

	"sigs.k8s.io/kustomize/kyaml/fn/framework"
	"sigs.k8s.io/kustomize/kyaml/fn/framework/command"
	"sigs.k8s.io/kustomize/kyaml/yaml"
)

type config struct {
	Labels map[string]string `yaml:"labels"`
	Fail   string            `yaml:"fail"`
}

func main() {
	process := framework.ResourceListProcessorFunc(func(list *framework.ResourceList) error {
		var settings config
		if err := framework.LoadFunctionConfig(list.FunctionConfig, &settings); err != nil {
			return err
		}
		fmt.Fprintln(os.Stderr, "labelling", len(list.Items), "items")
		if settings.Fail != "" {
			list.Results = framework.Results{{Severity: framework.Error, Message: settings.Fail}}
			return list.Results
		}
		for _, item := range list.Items {
			for key, value := range settings.Labels {
				if err := item.PipeE(yaml.SetLabel(key, value)); err != nil {
					return err
				}
			}
		}
		list.Results = append(list.Results, &framework.Result{Severity: framework.Info, Message: "labelled"})
		return nil
	})
	if err := command.Build(process, command.StandaloneDisabled, false).Execute(); err != nil {
		os.Exit(1)
	}
}
