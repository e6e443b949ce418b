package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"text/template"

	"scavenger.dev/devcluster"
)

// Cluster is what `cargo xtask cluster` decided; the fields are also the
// variables of the templates in config/ and manifests/.
type Cluster struct {
	Name string `json:"name"`
	// Kubernetes is its release: 1.31, 1.34 or 1.37.
	Kubernetes string `json:"kubernetes"`
	StateDir   string `json:"state_dir"`
	BinDir     string `json:"bin_dir"`
	NodeName   string `json:"node_name"`
	// HostDevice is the host's end of the cable to the node.
	HostDevice string `json:"host_device"`
	// Network holds the two addresses below and nothing else.
	Network     string `json:"network"`
	HostAddress string `json:"host_address"`
	NodeAddress string `json:"node_address"`
	PodCIDR     string `json:"pod_cidr"`
	ServiceCIDR string `json:"service_cidr"`
	APIAddress  string `json:"api_service_address"`
	DNSAddress  string `json:"dns_service_address"`
	CgroupRoot  string `json:"cgroup_root"`
	PauseImage  string `json:"pause_image"`
	VolumeCount int    `json:"volume_count"`

	path string
}

func readCluster(path string) (*Cluster, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read the cluster's description: %w", err)
	}
	cluster := &Cluster{path: path}
	if err := json.Unmarshal(content, cluster); err != nil {
		return nil, fmt.Errorf("cannot understand the cluster's description %s: %w", path, err)
	}
	return cluster, nil
}

// Pki is the folder of certificates, keys and kubeconfigs.
func (c *Cluster) Pki() string { return filepath.Join(c.StateDir, "pki") }

// Volumes names the pool's PersistentVolumes, each a folder of the same name.
func (c *Cluster) Volumes() []string {
	names := make([]string, c.VolumeCount)
	for i := range names {
		names[i] = fmt.Sprintf("local-%02d", i+1)
	}
	return names
}

// ContainerdSocket is in the state folder, not in /run: /run is private to the
// cluster, and `cluster load` works from outside.
func (c *Cluster) ContainerdSocket() string { return filepath.Join(c.StateDir, "containerd.sock") }

// registryPort is the same on both sides of the cable.
const registryPort = "5000"

// Registry is where the cluster's own registry listens.
func (c *Cluster) Registry() string { return net.JoinHostPort(c.NodeAddress, registryPort) }

// registryFront is where a test may listen in front of the registry, to answer in
// its place.
func (c *Cluster) registryFront() string { return net.JoinHostPort(c.HostAddress, registryPort) }

// metricsPort is beside the kubelet's 10250, which the metrics-server has where it is a pod.
const metricsPort = "4443"

// MetricsServer is where the metrics-server listens.
func (c *Cluster) MetricsServer() string { return net.JoinHostPort(c.NodeAddress, metricsPort) }

// MetricsPort is for the manifests.
func (c *Cluster) MetricsPort() string { return metricsPort }

// CABundle is the cluster's authority, as manifests have it.
func (c *Cluster) CABundle() (string, error) {
	ca, err := os.ReadFile(filepath.Join(c.Pki(), "ca.crt"))
	return base64.StdEncoding.EncodeToString(ca), err
}

// writeRegistries says to containerd that both are asked without TLS.
func (c *Cluster) writeRegistries() error {
	for _, host := range []string{c.Registry(), c.registryFront()} {
		folder := filepath.Join(c.StateDir, "config", "registries", host)
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return fmt.Errorf("cannot create %s: %w", folder, err)
		}
		hosts := fmt.Sprintf("server = \"http://%s\"\n", host)
		if err := os.WriteFile(filepath.Join(folder, "hosts.toml"), []byte(hosts), 0o644); err != nil {
			return fmt.Errorf("cannot configure the registry %s: %w", host, err)
		}
	}
	return nil
}

func (c *Cluster) controlSocket() string { return filepath.Join(c.StateDir, "control.sock") }

func (c *Cluster) binary(name string) string { return filepath.Join(c.BinDir, name) }

func (c *Cluster) config(name string) string { return filepath.Join(c.StateDir, "config", name) }

// writeFiles renders config/, manifests/ and kwok/ into the state folder. The
// certificates must be there.
func (c *Cluster) writeFiles() error {
	err := fs.WalkDir(devcluster.Files, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		target := filepath.Join(c.StateDir, path)
		if entry.IsDir() {
			return os.MkdirAll(target, 0o755)
		}
		content, err := fs.ReadFile(devcluster.Files, path)
		if err != nil {
			return err
		}
		// KWOK's stages are templates themselves, of KWOK's own kind.
		if filepath.Dir(path) != "kwok" {
			parsed, err := template.New(path).Option("missingkey=error").Parse(string(content))
			if err != nil {
				return err
			}
			var rendered bytes.Buffer
			if err := parsed.Execute(&rendered, c); err != nil {
				return err
			}
			content = rendered.Bytes()
		}
		return os.WriteFile(target, content, 0o644)
	})
	if err != nil {
		return fmt.Errorf("cannot write the cluster's configuration: %w", err)
	}
	if err := c.writeRegistries(); err != nil {
		return err
	}
	for _, volume := range c.Volumes() {
		directory := filepath.Join(c.StateDir, "volumes", volume)
		if err := os.MkdirAll(directory, 0o777); err != nil {
			return fmt.Errorf("cannot create the volume %s: %w", volume, err)
		}
		// The umask does not count for chmod. Pods run as any user.
		if err := os.Chmod(directory, 0o777); err != nil {
			return fmt.Errorf("cannot open the volume %s for every user: %w", volume, err)
		}
	}
	return nil
}
