package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func testCluster(t *testing.T) *Cluster {
	t.Helper()
	return &Cluster{
		Name: "test", Kubernetes: "1.37", StateDir: t.TempDir(), NodeName: "node", HostDevice: "scavenger9",
		Network: "10.231.9.0/30", HostAddress: "10.231.9.1", NodeAddress: "10.231.9.2",
		PodCIDR: "10.232.9.0/24", ServiceCIDR: "10.233.9.0/24", APIAddress: "10.233.9.1",
		DNSAddress: "10.233.9.10", CgroupRoot: "/scavenger-test", PauseImage: "pause:1", VolumeCount: 3,
	}
}

func TestEveryTemplateIsFilledIn(t *testing.T) {
	c := testCluster(t)
	if err := writePki(c); err != nil {
		t.Fatal(err)
	}
	if err := c.writeFiles(); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"config/kubelet.yaml", "config/containerd.toml", "config/registry.yaml", "config/Corefile", "config/cni/10-pods.conflist", "manifests/20-storage.yaml", "manifests/on-request/metrics-server.yaml"} {
		content, err := os.ReadFile(filepath.Join(c.StateDir, file))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(content), "{{") || strings.Contains(string(content), "<no value>") {
			t.Errorf("%s is not filled in: %s", file, content)
		}
	}
	for kubernetes, want := range map[string]bool{"1.31": false, "1.34": false, "1.37": true} {
		c.Kubernetes = kubernetes
		if err := c.writeFiles(); err != nil {
			t.Fatal(err)
		}
		kubelet, _ := os.ReadFile(filepath.Join(c.StateDir, "config/kubelet.yaml"))
		if strings.Contains(string(kubelet), "imagePullCredentialsVerificationPolicy") != want {
			t.Errorf("a kubelet of %s has no such field, or should have it: %s", kubernetes, kubelet)
		}
	}
	for host, file := range map[string]string{
		"10.231.9.2:5000": "config/registries/10.231.9.2:5000/hosts.toml", "10.231.9.1:5000": "config/registries/10.231.9.1:5000/hosts.toml",
	} {
		content, err := os.ReadFile(filepath.Join(c.StateDir, file))
		if want := "server = \"http://" + host + "\"\n"; err != nil || string(content) != want {
			t.Errorf("%s: %q %v, want %q", file, content, err, want)
		}
	}
	volumes, _ := os.ReadFile(filepath.Join(c.StateDir, "manifests/20-storage.yaml"))
	if count := strings.Count(string(volumes), "kind: PersistentVolume\n"); count != c.VolumeCount {
		t.Errorf("%d volumes, want %d", count, c.VolumeCount)
	}
	metrics, _ := os.ReadFile(filepath.Join(c.StateDir, "manifests/on-request/metrics-server.yaml"))
	ca, _ := os.ReadFile(filepath.Join(c.Pki(), "ca.crt"))
	if want := "caBundle: " + base64.StdEncoding.EncodeToString(ca) + "\n"; !strings.Contains(string(metrics), want) {
		t.Errorf("the metrics-server's authority is not the cluster's: %s", metrics)
	}
	stages, _ := os.ReadFile(filepath.Join(c.StateDir, "kwok/stages.yaml"))
	if !strings.Contains(string(stages), "{{ $now := Now }}") {
		t.Error("KWOK's own templates must stay as they are")
	}
	info, err := os.Stat(filepath.Join(c.StateDir, "volumes/local-03"))
	if err != nil || info.Mode().Perm() != 0o777 {
		t.Errorf("any user must be able to write into a volume: %v %v", info, err)
	}
}

func TestCertificatesComeFromTheClustersAuthority(t *testing.T) {
	c := testCluster(t)
	if err := writePki(c); err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	ca, err := os.ReadFile(filepath.Join(c.Pki(), "ca.crt"))
	if err != nil || !roots.AppendCertsFromPEM(ca) {
		t.Fatal("no authority:", err)
	}
	for file, usage := range map[string]x509.ExtKeyUsage{
		"apiserver": x509.ExtKeyUsageServerAuth, "kubelet-server": x509.ExtKeyUsageServerAuth,
		"metrics-server-serving": x509.ExtKeyUsageServerAuth, "metrics-server": x509.ExtKeyUsageClientAuth,
		"admin": x509.ExtKeyUsageClientAuth, "kubelet": x509.ExtKeyUsageClientAuth,
	} {
		pair, err := tls.LoadX509KeyPair(filepath.Join(c.Pki(), file+".crt"), filepath.Join(c.Pki(), file+".key"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{usage}}); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		if usage == x509.ExtKeyUsageServerAuth && pair.Leaf.VerifyHostname(c.NodeAddress) != nil {
			t.Errorf("%s does not serve the node's address", file)
		}
	}
	kubeconfig, err := os.Stat(filepath.Join(c.Pki(), "admin.kubeconfig"))
	if err != nil || kubeconfig.Mode().Perm() != 0o600 {
		t.Errorf("the administrator's kubeconfig must be root's alone: %v %v", kubeconfig, err)
	}
}

func TestEveryComponentOnRequestHasItsManifest(t *testing.T) {
	c := testCluster(t)
	if err := writePki(c); err != nil {
		t.Fatal(err)
	}
	if err := c.writeFiles(); err != nil {
		t.Fatal(err)
	}
	for _, component := range onRequest(c) {
		if component.manifest == "" {
			continue
		}
		if _, err := os.Stat(filepath.Join(c.StateDir, onRequestManifest(component))); err != nil {
			t.Errorf("%s: %v", component.name, err)
		}
	}
	for _, component := range components(c) {
		if component.manifest != "" {
			t.Errorf("%s starts with the cluster, so nothing applies its manifest", component.name)
		}
	}
}
