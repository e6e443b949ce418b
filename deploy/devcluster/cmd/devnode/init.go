package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// File descriptors that up hands to the first process.
const (
	progressDescriptor = 3
	cableDescriptor    = 4
)

// runInit is process 1 of the cluster. It furnishes the namespaces, starts the
// supervisor and collects orphans. When the supervisor ends, so does it, and the
// kernel ends everything else.
func runInit(c *Cluster) error {
	cable := os.NewFile(cableDescriptor, "cable")
	// Ends when up has laid the cable, or has died.
	if _, err := io.Copy(io.Discard, cable); err != nil {
		return err
	}
	cable.Close()
	progress := os.NewFile(progressDescriptor, "progress")
	if err := furnish(c); err != nil {
		fmt.Fprintln(progress, lineFailed+err.Error())
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	supervisor := exec.Command(self, "supervise", c.path)
	supervisor.Stdout, supervisor.Stderr = os.Stdout, os.Stderr
	supervisor.ExtraFiles = []*os.File{progress}
	if err := supervisor.Start(); err != nil {
		return err
	}
	progress.Close()
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			return fmt.Errorf("wait: %w", err)
		case pid == supervisor.Process.Pid:
			return fmt.Errorf("the supervisor ended with status %d", status.ExitStatus())
		}
	}
}

func furnish(c *Cluster) error {
	if err := syscall.Sethostname([]byte(c.NodeName)); err != nil {
		return fmt.Errorf("cannot set the node's host name: %w", err)
	}
	if err := furnishMounts(c); err != nil {
		return err
	}
	return furnishNetwork(c)
}

// furnishMounts gives the cluster a /proc and /sys that show its own processes
// and devices, and private folders where Kubernetes programs write by habit.
func furnishMounts(c *Cluster) error {
	type mount struct {
		source, target, kind string
		flags                uintptr
		data                 string
	}
	const cgroups, keepCgroups, keepState = "/sys/fs/cgroup", "/run/cgroup", "/run/state"
	steps := []mount{
		// Nothing mounted here may show up on the host; what the host unmounts goes
		// here too.
		{"", "/", "", syscall.MS_REC | syscall.MS_SLAVE, ""},
		{"proc", "/proc", "proc", syscall.MS_NOSUID | syscall.MS_NODEV | syscall.MS_NOEXEC, ""},
		{"tmpfs", "/run", "tmpfs", syscall.MS_NOSUID | syscall.MS_NODEV, "mode=755"},
		// A new /sys hides the cgroups: carry them around it. Not so /sys/kernel/security:
		// containerd would load an AppArmor profile into the host's kernel.
		{cgroups, keepCgroups, "", syscall.MS_BIND | syscall.MS_REC, ""},
		{"sysfs", "/sys", "sysfs", syscall.MS_NOSUID | syscall.MS_NODEV | syscall.MS_NOEXEC, ""},
		{keepCgroups, cgroups, "", syscall.MS_BIND | syscall.MS_REC, ""},
		// The same for the state folder below /var/lib.
		{c.StateDir, keepState, "", syscall.MS_BIND, ""},
		{"tmpfs", "/var/lib", "tmpfs", syscall.MS_NOSUID | syscall.MS_NODEV, "mode=755"},
		{keepState, c.StateDir, "", syscall.MS_BIND, ""},
		{c.StateDir + "/logs", "/var/log", "", syscall.MS_BIND, ""},
	}
	for _, step := range steps {
		if step.target != "/sys" && step.target != cgroups && step.target != "/" {
			if err := os.MkdirAll(step.target, 0o755); err != nil {
				return err
			}
		}
		if err := syscall.Mount(step.source, step.target, step.kind, step.flags, step.data); err != nil {
			return fmt.Errorf("cannot mount %s%s on %s: %w", step.kind, step.source, step.target, err)
		}
	}
	for _, target := range []string{keepCgroups, keepState} {
		if err := syscall.Unmount(target, syscall.MNT_DETACH); err != nil {
			return fmt.Errorf("cannot unmount %s: %w", target, err)
		}
	}
	// Volumes with mount propagation need it among the cluster's own namespaces.
	// Last of all: the unmounts above would have spread to the copies.
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_SHARED, ""); err != nil {
		return fmt.Errorf("cannot share mounts within the cluster: %w", err)
	}
	return shieldKernelSettings(c)
}

// shieldKernelSettings covers the settings of the whole kernel that a kubelet
// writes with files that hold what it wants to read: it then leaves the host's
// own alone.
func shieldKernelSettings(c *Cluster) error {
	settings := map[string]string{
		"vm/overcommit_memory":      "1",
		"vm/panic_on_oom":           "0",
		"kernel/panic":              "10",
		"kernel/panic_on_oops":      "1",
		"kernel/keys/root_maxkeys":  "1000000",
		"kernel/keys/root_maxbytes": "25000000",
	}
	for name, value := range settings {
		cover := filepath.Join("/run/kernel-settings", name)
		if err := os.MkdirAll(filepath.Dir(cover), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(cover, []byte(value+"\n"), 0o644); err != nil {
			return err
		}
		if err := syscall.Mount(cover, filepath.Join("/proc/sys", name), "", syscall.MS_BIND, ""); err != nil {
			return fmt.Errorf("cannot cover the kernel setting %s: %w", name, err)
		}
	}
	return nil
}

// furnishNetwork gives the node its address. There is no default route: what is
// not in this cluster or on this host is unreachable.
func furnishNetwork(c *Cluster) error {
	for _, arguments := range [][]string{
		{"link", "set", "lo", "up"},
		{"address", "add", c.NodeAddress + "/30", "dev", "eth0"},
		{"link", "set", "eth0", "up"},
		// Without a route, a connect to a Service address fails before kube-proxy's
		// rules see it.
		{"route", "add", c.ServiceCIDR, "dev", "eth0", "src", c.NodeAddress},
	} {
		if err := ip(arguments...); err != nil {
			return err
		}
	}
	// The node is the router of its pods.
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644); err != nil {
		return fmt.Errorf("cannot turn on forwarding: %w", err)
	}
	return nil
}
