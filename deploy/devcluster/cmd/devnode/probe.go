package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"

	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// probeInterval bounds what a start loses per component; a probe is one request
// on this machine.
const probeInterval = 50 * time.Millisecond

// probe asks whether a component works: by a URL that answers 200, a socket that
// accepts or a question of its own. A component without any is ready once started.
type probe struct {
	url    string
	socket string
	ask    func() bool
}

// Certificates are not checked: the question goes to a port inside the cluster's
// own network namespace.
var insecure = &http.Client{
	Timeout:   2 * time.Second,
	Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true},
}

func (p probe) check() bool {
	switch {
	case p.url != "":
		answer, err := insecure.Get(p.url)
		if err != nil {
			return false
		}
		answer.Body.Close()
		return answer.StatusCode == http.StatusOK
	case p.socket != "":
		connection, err := net.Dial("unix", p.socket)
		if err != nil {
			return false
		}
		connection.Close()
	case p.ask != nil:
		return p.ask()
	}
	return true
}

// await asks until the answer is yes or something else has failed.
func await(failed <-chan error, check func() bool) error {
	ticks := time.NewTicker(probeInterval)
	defer ticks.Stop()
	for !check() {
		select {
		case err := <-failed:
			return err
		case <-ticks.C:
		}
	}
	return nil
}

// api makes a function that reads an object of the API, as administrator.
func api(c *Cluster) func(path string, into any) bool {
	client := adminClient(c)
	return func(path string, into any) bool {
		if client == nil {
			return false
		}
		answer, err := client.Get("https://" + c.NodeAddress + ":6443" + path)
		if err != nil {
			return false
		}
		defer answer.Body.Close()
		return answer.StatusCode == http.StatusOK && json.NewDecoder(answer.Body).Decode(into) == nil
	}
}

func adminClient(c *Cluster) *http.Client {
	pair, err := tls.LoadX509KeyPair(filepath.Join(c.Pki(), "admin.crt"), filepath.Join(c.Pki(), "admin.key"))
	if err != nil {
		return nil
	}
	ca, err := os.ReadFile(filepath.Join(c.Pki(), "ca.crt"))
	if err != nil {
		return nil
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	return &http.Client{
		Timeout:   10 * time.Second,
		Transport: &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}}},
	}
}

func nodeIsReady(c *Cluster) func() bool {
	get := api(c)
	return func() bool {
		var node struct {
			Spec struct {
				Taints []struct{ Key string }
			}
			Status struct {
				Conditions []struct{ Type, Status string }
			}
		}
		if !get("/api/v1/nodes/"+c.NodeName, &node) {
			return false
		}
		// The not-ready taint goes a moment after the condition, and pods need that.
		for _, condition := range node.Status.Conditions {
			if condition.Type == "Ready" && condition.Status == "True" {
				return len(node.Spec.Taints) == 0
			}
		}
		return false
	}
}

// apiServiceIsAvailable says whether the API server reaches whom it asks for an API.
func apiServiceIsAvailable(c *Cluster, name string) func() bool {
	get := api(c)
	return func() bool {
		var service struct {
			Status struct {
				Conditions []struct{ Type, Status string }
			}
		}
		if !get("/apis/apiregistration.k8s.io/v1/apiservices/"+name, &service) {
			return false
		}
		for _, condition := range service.Status.Conditions {
			if condition.Type == "Available" {
				return condition.Status == "True"
			}
		}
		return false
	}
}

// serviceAccountExists waits for what the first pod in a namespace needs.
func serviceAccountExists(c *Cluster) func() bool {
	get := api(c)
	return func() bool {
		var account map[string]any
		return get("/api/v1/namespaces/default/serviceaccounts/default", &account)
	}
}

func nameResolves(c *Cluster) func() bool {
	resolver := net.Resolver{
		PreferGo: true,
		Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			var dialer net.Dialer
			// Through the Service, as pods do.
			return dialer.DialContext(ctx, network, c.DNSAddress+":53")
		},
	}
	return func() bool {
		limited, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		addresses, err := resolver.LookupHost(limited, "kubernetes.default.svc.cluster.local.")
		return err == nil && len(addresses) == 1 && addresses[0] == c.APIAddress
	}
}
