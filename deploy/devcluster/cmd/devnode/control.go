package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
)

// serveControl takes requests from `cargo xtask cluster` for the rest of the
// cluster's life.
func (s *supervisor) serveControl() error {
	listener, err := net.Listen("unix", s.cluster.controlSocket())
	if err != nil {
		return err
	}
	handler := http.NewServeMux()
	handler.HandleFunc("POST /kwok", func(answer http.ResponseWriter, _ *http.Request) {
		if _, err := os.Stat(s.cluster.binary("kwok")); err != nil {
			http.Error(answer, "kwok was not built: "+err.Error(), http.StatusPreconditionFailed)
			return
		}
		if !s.isRunning("kwok") {
			s.runComponent(kwokComponent(s.cluster))
		}
		if !s.isRunning("kwok") {
			http.Error(answer, "it ended; see "+s.logFile("kwok"), http.StatusInternalServerError)
			return
		}
		fmt.Fprintln(answer, "kwok runs")
	})
	return http.Serve(listener, handler)
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

// requestKwok asks the supervisor of a running cluster to start KWOK.
func requestKwok(c *Cluster) error {
	client := http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var dialer net.Dialer
			return dialer.DialContext(ctx, "unix", c.controlSocket())
		},
	}}
	answer, err := client.Post("http://cluster/kwok", "", nil)
	if err != nil {
		return fmt.Errorf("the cluster %s does not answer: %w", c.Name, err)
	}
	defer answer.Body.Close()
	said, _ := io.ReadAll(answer.Body)
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("the cluster %s did not start KWOK: %s", c.Name, strings.TrimSpace(string(said)))
	}
	return nil
}
