package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
)

// serveControl takes requests from `cargo xtask cluster` for the rest of the
// cluster's life.
func (s *supervisor) serveControl(listener net.Listener) error {
	handler := http.NewServeMux()
	for _, component := range onRequest(s.cluster) {
		handler.HandleFunc("POST /"+component.name, func(answer http.ResponseWriter, _ *http.Request) {
			if err := s.demand(component); err != nil {
				http.Error(answer, err.Error(), http.StatusInternalServerError)
			}
		})
	}
	return http.Serve(listener, handler)
}

// onRequest are the components that run only when asked for.
func onRequest(c *Cluster) []component {
	return []component{kwokComponent(c), registryComponent(c), metricsServerComponent(c)}
}

func onRequestManifest(component component) string {
	return filepath.Join("manifests", "on-request", component.manifest)
}

// demand starts a component that runs only when asked for, unless it runs, and waits
// until it works.
func (s *supervisor) demand(component component) error {
	if _, err := os.Stat(s.cluster.binary(component.name)); err != nil {
		return fmt.Errorf("%s is not in the cluster's folder of programs: %w", component.name, err)
	}
	if !s.isRunning(component.name) {
		if component.manifest != "" {
			if err := s.apply(onRequestManifest(component)); err != nil {
				return err
			}
		}
		s.runComponent(component)
	}
	// Another request may have given up before it was ready.
	_ = await(nil, func() bool { return !s.isRunning(component.name) || component.ready.check() })
	if !s.isRunning(component.name) {
		return fmt.Errorf("%s ended; see %s", component.name, s.logFile(component.name))
	}
	return nil
}

func (s *supervisor) isRunning(name string) bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for _, component := range s.status.Components {
		if component.Name == name {
			return component.State != "ended"
		}
	}
	return false
}

// request asks the supervisor of a running cluster to start a component.
func request(c *Cluster, name string) error {
	client := http.Client{Timeout: startLimit, Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var dialer net.Dialer
			return dialer.DialContext(ctx, "unix", c.controlSocket())
		},
	}}
	answer, err := client.Post("http://cluster/"+name, "", nil)
	if err != nil {
		return fmt.Errorf("the cluster %s does not answer: %w", c.Name, err)
	}
	defer answer.Body.Close()
	said, _ := io.ReadAll(answer.Body)
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("the cluster %s did not start %s: %s", c.Name, name, strings.TrimSpace(string(said)))
	}
	return nil
}
