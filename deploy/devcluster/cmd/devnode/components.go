package main

import "path/filepath"

// component is one long-running program of the cluster.
type component struct {
	name      string
	arguments []string
	// environment is what it gets beside what every component has.
	environment []string
	// after names components that must be ready before this one starts.
	after []string
	// manifest is applied before it starts, a file in manifests/on-request; only for what runs when asked for.
	manifest string
	// ready is where it answers once it works; empty: nobody asks.
	ready probe
}

func components(c *Cluster) []component {
	kubeconfig := func(name string) string { return "--kubeconfig=" + filepath.Join(c.Pki(), name+".kubeconfig") }
	pki := func(file string) string { return filepath.Join(c.Pki(), file) }
	return []component{
		{
			name: "etcd",
			arguments: []string{
				"--data-dir=" + filepath.Join(c.StateDir, "etcd"),
				"--listen-client-urls=http://127.0.0.1:2379", "--advertise-client-urls=http://127.0.0.1:2379",
				"--listen-peer-urls=http://127.0.0.1:2380", "--initial-advertise-peer-urls=http://127.0.0.1:2380",
				"--initial-cluster=default=http://127.0.0.1:2380",
				// The cluster does not outlive the machine, so nothing has to be on disk.
				"--unsafe-no-fsync",
				// Scale tests write much: the default is 2 GB.
				"--quota-backend-bytes=8000000000",
				"--log-level=warn",
			},
			ready: probe{url: "http://127.0.0.1:2379/readyz"},
		},
		{
			name:      "containerd",
			arguments: []string{"--config=" + c.config("containerd.toml"), "--log-level=info"},
			ready:     probe{socket: c.ContainerdSocket()},
		},
		{
			name: "kube-apiserver",
			arguments: []string{
				"--etcd-servers=http://127.0.0.1:2379",
				"--advertise-address=" + c.NodeAddress, "--secure-port=6443",
				"--service-cluster-ip-range=" + c.ServiceCIDR,
				"--tls-cert-file=" + pki("apiserver.crt"), "--tls-private-key-file=" + pki("apiserver.key"),
				"--client-ca-file=" + pki("ca.crt"),
				"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
				"--allow-privileged=true",
				"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
				"--service-account-key-file=" + pki("service-account.pub"),
				"--service-account-signing-key-file=" + pki("service-account.key"),
				"--kubelet-preferred-address-types=InternalIP",
				"--kubelet-certificate-authority=" + pki("ca.crt"),
				"--kubelet-client-certificate=" + pki("apiserver-kubelet-client.crt"),
				"--kubelet-client-key=" + pki("apiserver-kubelet-client.key"),
				// For aggregated APIs such as metrics.
				"--requestheader-client-ca-file=" + pki("ca.crt"),
				"--requestheader-allowed-names=front-proxy-client",
				"--requestheader-username-headers=X-Remote-User",
				"--requestheader-group-headers=X-Remote-Group",
				"--requestheader-extra-headers-prefix=X-Remote-Extra-",
				"--proxy-client-cert-file=" + pki("front-proxy-client.crt"),
				"--proxy-client-key-file=" + pki("front-proxy-client.key"),
				// 400 and 200 by default: simulated nodes share one machine.
				"--max-requests-inflight=2000", "--max-mutating-requests-inflight=1000",
			},
			// By default a quarter of its time goes into collecting garbage, on processors that all components and
			// the workloads share. It takes 2 GB at most when some thousand objects come and go.
			environment: []string{"GOGC=300"},
			after:       []string{"etcd"},
			ready:       probe{url: "https://" + c.NodeAddress + ":6443/readyz"},
		},
		{
			name: "kube-controller-manager",
			arguments: []string{
				kubeconfig("kube-controller-manager"),
				"--leader-elect=false", "--use-service-account-credentials=true",
				"--root-ca-file=" + pki("ca.crt"),
				"--service-account-private-key-file=" + pki("service-account.key"),
				"--service-cluster-ip-range=" + c.ServiceCIDR,
				"--bind-address=127.0.0.1",
				// 20 and 30 by default, which a scale test is bound by.
				"--kube-api-qps=1000", "--kube-api-burst=2000",
				"--concurrent-job-syncs=20",
			},
			after: []string{"kube-apiserver"},
			ready: probe{url: "https://127.0.0.1:10257/healthz"},
		},
		{
			name:      "kube-scheduler",
			arguments: []string{"--config=" + c.config("kube-scheduler.yaml"), "--bind-address=127.0.0.1"},
			after:     []string{"kube-apiserver"},
			ready:     probe{url: "https://127.0.0.1:10259/readyz"},
		},
		{
			name: "kubelet",
			arguments: []string{
				"--config=" + c.config("kubelet.yaml"), kubeconfig("kubelet"),
				"--root-dir=" + filepath.Join(c.StateDir, "kubelet"),
				"--hostname-override=" + c.NodeName, "--node-ip=" + c.NodeAddress,
			},
			after: []string{"kube-apiserver", "containerd"},
			ready: probe{url: "http://127.0.0.1:10248/healthz"},
		},
		{
			name:      "kube-proxy",
			arguments: []string{"--config=" + c.config("kube-proxy.yaml")},
			after:     []string{"kube-apiserver"},
			ready:     probe{url: "http://127.0.0.1:10256/healthz"},
		},
		{
			name:      "coredns",
			arguments: []string{"-conf", c.config("Corefile")},
			// Its role comes with the manifests; without it, its watches back off.
			after: []string{"manifests"},
			ready: probe{url: "http://127.0.0.1:8181/ready"},
		},
	}
}

// kwokComponent plays the kubelets of fake nodes. It runs only when asked for.
func kwokComponent(c *Cluster) component {
	return component{
		name: "kwok",
		arguments: []string{
			"--kubeconfig=" + filepath.Join(c.Pki(), "kwok.kubeconfig"),
			"--config=" + filepath.Join(c.StateDir, "kwok", "stages.yaml"),
			"--manage-all-nodes=false",
			"--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
			"--node-ip=" + c.NodeAddress,
			// Renewed in a quarter of this time: within the 50 s after which the
			// controller manager gives a node up, and seldom enough for 10,000.
			"--node-lease-duration-seconds=120",
			"--server-address=127.0.0.1:10247",
		},
		after: []string{"kube-apiserver"},
		ready: probe{url: "http://127.0.0.1:10247/healthz"},
	}
}

// registryComponent serves images to the node. It runs only when asked for.
func registryComponent(c *Cluster) component {
	return component{
		name:      "docker-registry",
		arguments: []string{"serve", c.config("registry.yaml")},
		after:     []string{"containerd"},
		// The one path that needs no password.
		ready: probe{url: "http://" + c.Registry() + "/"},
	}
}

// metricsServerComponent reads from the kubelet what the node and its pods use, for
// `kubectl top`. It runs only when asked for.
func metricsServerComponent(c *Cluster) component {
	kubeconfig := filepath.Join(c.Pki(), "metrics-server.kubeconfig")
	return component{
		name: "metrics-server",
		arguments: []string{
			// The kubelet's certificate is of the same authority as the API server's.
			"--kubeconfig=" + kubeconfig, "--authentication-kubeconfig=" + kubeconfig,
			"--authorization-kubeconfig=" + kubeconfig,
			"--bind-address=" + c.NodeAddress, "--secure-port=" + metricsPort,
			"--tls-cert-file=" + filepath.Join(c.Pki(), "metrics-server-serving.crt"),
			"--tls-private-key-file=" + filepath.Join(c.Pki(), "metrics-server-serving.key"),
			"--kubelet-preferred-address-types=InternalIP", "--kubelet-use-node-status-port",
			// It takes no less, and a request may last nine tenths of it.
			"--metric-resolution=10s", "--kubelet-request-timeout=9s",
			// Fake nodes have no kubelet.
			"--node-selector=type!=kwok",
		},
		after:    []string{"kube-apiserver", "kubelet"},
		manifest: "metrics-server.yaml",
		ready:    probe{ask: apiServiceIsAvailable(c, "v1beta1.metrics.k8s.io")},
	}
}
