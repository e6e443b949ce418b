package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// authority signs everything in one cluster. Its key is never stored: a cluster
// that starts again gets new certificates.
type authority struct {
	folder      string
	key         *ecdsa.PrivateKey
	certificate *x509.Certificate
	pem         []byte
}

// identity is one certificate: who, in which groups, and which addresses it
// serves (none: a client only).
type identity struct {
	file   string
	name   string
	groups []string
	serves []string
}

// writePki makes all certificates, keys and kubeconfigs of the cluster.
func writePki(c *Cluster) error {
	if err := os.MkdirAll(c.Pki(), 0o700); err != nil {
		return err
	}
	ca, err := newAuthority(c)
	if err != nil {
		return fmt.Errorf("cannot make the cluster's certificate authority: %w", err)
	}
	identities := []identity{
		{"apiserver", "kube-apiserver", nil, []string{
			c.NodeAddress, c.APIAddress, "127.0.0.1", "localhost", "kubernetes", "kubernetes.default",
			"kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
		}},
		{"kubelet-server", c.NodeName, nil, []string{c.NodeAddress, c.NodeName, "127.0.0.1"}},
		// By the name of its Service, as the API server asks it.
		{"metrics-server-serving", "metrics-server", nil, []string{"metrics-server.kube-system.svc", c.NodeAddress}},
		// The API server's identity towards the kubelet: logs, exec, port-forward.
		{"apiserver-kubelet-client", "kube-apiserver-kubelet-client", []string{"system:masters"}, nil},
		{"front-proxy-client", "front-proxy-client", nil, nil},
	}
	for _, identity := range identities {
		if _, _, err := ca.issue(identity); err != nil {
			return err
		}
	}
	users := []identity{
		{"admin", "devcluster:admin", []string{"system:masters"}, nil},
		{"kube-controller-manager", "system:kube-controller-manager", nil, nil},
		{"kube-scheduler", "system:kube-scheduler", nil, nil},
		{"kube-proxy", "system:kube-proxy", nil, nil},
		{"kubelet", "system:node:" + c.NodeName, []string{"system:nodes"}, nil},
		{"coredns", "devcluster:coredns", nil, nil},
		{"kwok", "devcluster:kwok", []string{"system:masters"}, nil},
		{"metrics-server", "devcluster:metrics-server", nil, nil},
	}
	for _, user := range users {
		if err := ca.issueKubeconfig(c, user); err != nil {
			return err
		}
	}
	// Service account tokens are signed with a key pair of their own.
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return err
	}
	if err := ca.write("service-account.pub", encode("PUBLIC KEY", public), 0o644); err != nil {
		return err
	}
	_, err = ca.writeKey("service-account", key)
	return err
}

func newAuthority(c *Cluster) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "devcluster " + c.Name},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().AddDate(1, 0, 0),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	ca := &authority{folder: c.Pki(), key: key, certificate: certificate, pem: encode("CERTIFICATE", der)}
	return ca, ca.write("ca.crt", ca.pem, 0o644)
}

// issue writes FILE.crt and FILE.key and returns both.
func (ca *authority) issue(who identity) (certificate, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: who.name, Organization: who.groups},
		// An hour back, for a clock that is set right in the meantime.
		NotBefore:   time.Now().Add(-time.Hour),
		NotAfter:    time.Now().AddDate(1, 0, 0),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	for _, name := range who.serves {
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		if address := net.ParseIP(name); address != nil {
			template.IPAddresses = append(template.IPAddresses, address)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.certificate, &private.PublicKey, ca.key)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot issue the certificate of %s: %w", who.name, err)
	}
	certificate = encode("CERTIFICATE", der)
	if err := ca.write(who.file+".crt", certificate, 0o644); err != nil {
		return nil, nil, err
	}
	key, err = ca.writeKey(who.file, private)
	return certificate, key, err
}

// issueKubeconfig writes FILE.kubeconfig with everything inside, so that the one
// file can be copied.
func (ca *authority) issueKubeconfig(c *Cluster, who identity) error {
	certificate, key, err := ca.issue(who)
	if err != nil {
		return err
	}
	base := base64.StdEncoding.EncodeToString
	content := fmt.Sprintf(`apiVersion: v1
kind: Config
clusters:
  - name: %[1]s
    cluster:
      server: https://%[2]s:6443
      certificate-authority-data: %[3]s
users:
  - name: %[4]s
    user:
      client-certificate-data: %[5]s
      client-key-data: %[6]s
contexts:
  - name: %[1]s
    context: {cluster: %[1]s, user: "%[4]s"}
current-context: %[1]s
`, "scavenger-"+c.Name, c.NodeAddress, base(ca.pem), who.name, base(certificate), base(key))
	return ca.write(who.file+".kubeconfig", []byte(content), 0o600)
}

func (ca *authority) writeKey(file string, key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	content := encode("EC PRIVATE KEY", der)
	return content, ca.write(file+".key", content, 0o600)
}

func (ca *authority) write(file string, content []byte, mode os.FileMode) error {
	return os.WriteFile(filepath.Join(ca.folder, file), content, mode)
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
