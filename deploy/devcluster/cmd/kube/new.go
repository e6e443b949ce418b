//go:build !kubernetes_1.31

package main

import (
	"context"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/component-base/logs"
	kubectlcli "k8s.io/kubectl/pkg/cmd"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

func newKubelet() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) }

// As cmd/kubectl: -v counts while the command is still being built.
func countVerbosity() { _, _ = logs.GlogSetter(kubectlcli.GetLogVerbosity(os.Args)) }
