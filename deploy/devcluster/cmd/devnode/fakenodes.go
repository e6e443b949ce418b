package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
)

// Two cores serve no more requests at once, and thousands of nodes still come
// within seconds.
const fakeNodeWriters = 16

// addFakeNodes starts KWOK and creates fake-0001 to fake-N, as far as they are
// missing.
func addFakeNodes(c *Cluster, count int) error {
	if err := request(c, kwokComponent(c).name); err != nil {
		return err
	}
	client := adminClient(c)
	if client == nil {
		return fmt.Errorf("the cluster %s has no certificates: it is not complete", c.Name)
	}
	// One connection carries all of them (HTTP/2).
	numbers := make(chan int)
	failures := make(chan error, fakeNodeWriters)
	var writers sync.WaitGroup
	for range fakeNodeWriters {
		writers.Go(func() {
			for number := range numbers {
				if err := createFakeNode(c, client, number); err != nil {
					failures <- err
					return
				}
			}
		})
	}
	var failure error
	for number := 1; number <= count && failure == nil; number++ {
		select {
		case numbers <- number:
		case failure = <-failures:
		}
	}
	close(numbers)
	writers.Wait()
	close(failures)
	for err := range failures {
		failure = err
	}
	return failure
}

func createFakeNode(c *Cluster, client *http.Client, number int) error {
	name := fmt.Sprintf("fake-%04d", number)
	now := time.Now().UTC().Format(time.RFC3339)
	resources := map[string]string{"cpu": "64", "memory": "256Gi", "ephemeral-storage": "1Ti", "pods": "250"}
	node := map[string]any{
		"apiVersion": "v1",
		"kind":       "Node",
		"metadata": map[string]any{
			"name":        name,
			"annotations": map[string]string{"kwok.x-k8s.io/node": "fake"},
			"labels": map[string]string{
				"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64", "type": "kwok",
			},
		},
		"spec": map[string]any{
			// Whoever wants to run here must say so: nothing really runs.
			"taints": []map[string]string{{"key": "kwok.x-k8s.io/node", "value": "fake", "effect": "NoSchedule"}},
		},
		// Ready from the first moment: one write less than with KWOK's help, which
		// counts with thousands.
		"status": map[string]any{
			"capacity": resources, "allocatable": resources,
			"conditions": []map[string]any{{
				"type": "Ready", "status": "True", "reason": "KubeletReady",
				"lastHeartbeatTime": now, "lastTransitionTime": now,
			}},
			"addresses": []map[string]string{{"type": "Hostname", "address": name}},
		},
	}
	body, err := json.Marshal(node)
	if err != nil {
		return err
	}
	answer, err := client.Post("https://"+c.NodeAddress+":6443/api/v1/nodes", "application/json", bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("cannot create the node %s: %w", name, err)
	}
	defer answer.Body.Close()
	said, _ := io.ReadAll(answer.Body)
	// There since an earlier time.
	if answer.StatusCode != http.StatusCreated && answer.StatusCode != http.StatusConflict {
		return fmt.Errorf("cannot create the node %s: %s", name, said)
	}
	return nil
}
