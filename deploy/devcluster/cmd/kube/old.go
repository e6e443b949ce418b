//go:build kubernetes_1.31

package main

import (
	"github.com/spf13/cobra"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

func newKubelet() *cobra.Command { return kubelet.NewKubeletCommand() }

// Its kubectl reads -v like every other flag.
func countVerbosity() {}
