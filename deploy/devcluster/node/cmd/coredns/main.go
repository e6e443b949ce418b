// CoreDNS with the plugins that a cluster's DNS needs. The stock program also
// brings the clients of four clouds, which would triple its build.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/loadbalance"
	_ "github.com/coredns/coredns/plugin/ready"
	_ "github.com/coredns/coredns/plugin/template"
)

func main() {
	// The order in which plugins see a query. Template comes last here (and first in
	// the stock list): it answers what kubernetes left over.
	dnsserver.Directives = []string{"bind", "ready", "errors", "cache", "loadbalance", "kubernetes", "template"}
	coremain.Run()
}
