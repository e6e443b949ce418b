package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// Lines that the cluster sends while it starts; what comes before them is shown
// to the user.
const (
	lineReady  = "READY"
	lineFailed = "FAILED "
)

// up starts the cluster's first process in new namespaces, connects it to the
// host, and returns when the node is Ready. The cluster goes on by itself.
func up(c *Cluster) error {
	progress, progressEnd, err := os.Pipe()
	if err != nil {
		return err
	}
	cableReady, cableDone, err := os.Pipe()
	if err != nil {
		return err
	}
	initLog, err := os.Create(filepath.Join(c.StateDir, "logs", "init.log"))
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	child := exec.Command(self, "init", c.path)
	child.Dir = "/"
	child.Stdout, child.Stderr = initLog, initLog
	child.ExtraFiles = []*os.File{progressEnd, cableReady}
	child.Env = append(os.Environ(), "PATH="+c.BinDir+":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
	child.SysProcAttr = &syscall.SysProcAttr{
		Setsid:     true,
		Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC,
	}
	if err := child.Start(); err != nil {
		return fmt.Errorf("cannot make the cluster's namespaces (this needs root and CAP_SYS_ADMIN): %w", err)
	}
	// Only the child's ends may stay open, or its death would not end the pipe.
	progressEnd.Close()
	cableReady.Close()

	if err := connect(c, child.Process.Pid); err != nil {
		_ = child.Process.Kill()
		_ = child.Wait()
		return err
	}
	cableDone.Close()

	lines := bufio.NewScanner(progress)
	for lines.Scan() {
		line := lines.Text()
		if line == lineReady {
			return child.Process.Release()
		}
		if reason, failed := strings.CutPrefix(line, lineFailed); failed {
			return errors.New(reason)
		}
		fmt.Println(line)
	}
	_ = child.Wait()
	return fmt.Errorf("the cluster %s ended while it started; see %s", c.Name, initLog.Name())
}

// connect lays the cable between the host and the node, and makes sure that the
// node's address is at its other end: no packet may leave this machine.
func connect(c *Cluster, pid int) error {
	for _, arguments := range [][]string{
		// Should the cluster die, its device goes, and the default route would carry
		// the next request to its address out into the world. This route stays.
		{"route", "replace", "unreachable", c.Network, "metric", "4000"},
		{"link", "add", c.HostDevice, "type", "veth", "peer", "name", "eth0", "netns", fmt.Sprint(pid)},
		{"address", "add", c.HostAddress + "/30", "dev", c.HostDevice},
		{"link", "set", c.HostDevice, "up"},
	} {
		if err := ip(arguments...); err != nil {
			return err
		}
	}
	route, err := exec.Command("ip", "route", "get", c.NodeAddress).CombinedOutput()
	if err != nil || !strings.Contains(string(route), " dev "+c.HostDevice+" ") {
		return fmt.Errorf("the node's address %s would not be reached over %s but: %s", c.NodeAddress, c.HostDevice, strings.TrimSpace(string(route)))
	}
	return nil
}

func ip(arguments ...string) error {
	output, err := exec.Command("ip", arguments...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ip %s: %s", strings.Join(arguments, " "), strings.TrimSpace(string(output)))
	}
	return nil
}
