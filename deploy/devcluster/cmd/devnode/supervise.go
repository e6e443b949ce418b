package main

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"
)

// startLimit is far above the 15 s that a start takes on two idle cores: other
// work may share them.
const startLimit = 180 * time.Second

// Status is written to status.json at every change, for `cluster status`.
type Status struct {
	Phase string `json:"phase"`
	// Reason is why the phase is failed.
	Reason     string            `json:"reason,omitempty"`
	Seconds    float64           `json:"seconds"`
	Components []ComponentStatus `json:"components"`
}

// ComponentStatus is one program: starting, ready, done (a step that was to end)
// or ended (it should not have).
type ComponentStatus struct {
	Name   string `json:"name"`
	State  string `json:"state"`
	Detail string `json:"detail,omitempty"`
}

type supervisor struct {
	cluster  *Cluster
	started  time.Time
	progress *os.File

	mutex  sync.Mutex
	status Status
	ready  map[string]chan struct{}
	failed chan error
}

// supervise starts every component as soon as those it needs are ready, reports
// the end of any of them, and restarts none: a crash shall be seen.
func supervise(c *Cluster) error {
	s := &supervisor{
		cluster:  c,
		started:  time.Now(),
		progress: os.NewFile(progressDescriptor, "progress"),
		status:   Status{Phase: "starting"},
		ready:    map[string]chan struct{}{},
		failed:   make(chan error, 100),
	}
	reason := s.startAll()
	// Whoever hears that the cluster is ready may ask at once.
	var control net.Listener
	if reason == nil {
		control, reason = net.Listen("unix", c.controlSocket())
	}
	s.mutex.Lock()
	s.status.Seconds = time.Since(s.started).Seconds()
	if reason == nil {
		s.status.Phase = "ready"
	} else {
		s.status.Phase, s.status.Reason = "failed", reason.Error()
	}
	s.writeStatus()
	s.mutex.Unlock()
	if reason != nil {
		fmt.Fprintln(s.progress, lineFailed+reason.Error())
		return reason
	}
	fmt.Fprintln(s.progress, lineReady)
	s.progress.Close()
	return s.serveControl(control)
}

func (s *supervisor) startAll() error {
	c := s.cluster
	if err := writePki(c); err != nil {
		return err
	}
	if err := c.writeFiles(); err != nil {
		return err
	}
	pauseImage := filepath.Join(c.StateDir, "pause.tar")
	if err := writePauseImage(c.binary("pause"), c.PauseImage, pauseImage); err != nil {
		return err
	}
	all := components(c)
	steps := []step{
		{"pause-image", []string{"containerd"}, func() error {
			return s.runTool("ctr", "-a", c.ContainerdSocket(), "-n", "k8s.io", "images", "import", pauseImage)
		}},
		{"manifests", []string{"kube-apiserver"}, func() error {
			// Without the folder inside: it is for components that run when asked for.
			return s.apply("manifests")
		}},
		{"node", []string{"kubelet", "pause-image"}, func() error { return await(s.failed, nodeIsReady(c)) }},
		{"service-account", []string{"kube-controller-manager"}, func() error { return await(s.failed, serviceAccountExists(c)) }},
		{"dns", []string{"coredns", "kube-proxy"}, func() error { return await(s.failed, nameResolves(c)) }},
	}
	for _, component := range all {
		s.ready[component.name] = make(chan struct{})
	}
	for _, step := range steps {
		s.ready[step.name] = make(chan struct{})
	}
	for _, component := range all {
		go s.runComponent(component)
	}
	for _, step := range steps {
		go s.runStep(step)
	}
	limit := time.After(startLimit)
	for _, ready := range s.ready {
		select {
		case <-ready:
		case err := <-s.failed:
			return err
		case <-limit:
			return fmt.Errorf("the cluster was not ready after %s; what it waited for is in %s", startLimit, s.statusFile())
		}
	}
	return nil
}

// step is something to be done once.
type step struct {
	name  string
	after []string
	run   func() error
}

func (s *supervisor) runStep(step step) {
	s.waitFor(step.after)
	s.set(step.name, "starting", "")
	if err := step.run(); err != nil {
		s.set(step.name, "ended", err.Error())
		s.fail(err)
		return
	}
	s.set(step.name, "done", "")
	s.report(step.name)
}

func (s *supervisor) runComponent(component component) {
	s.waitFor(component.after)
	s.set(component.name, "starting", "")
	command, err := s.start(component)
	if err != nil {
		s.set(component.name, "ended", err.Error())
		s.fail(fmt.Errorf("cannot start %s: %w", component.name, err))
		return
	}
	ended := make(chan error, 1)
	go func() {
		end := command.Wait()
		err := fmt.Errorf("%s ended (%s); see %s", component.name, command.ProcessState, s.logFile(component.name))
		if end == nil {
			err = fmt.Errorf("%s ended by itself; see %s", component.name, s.logFile(component.name))
		}
		s.set(component.name, "ended", command.ProcessState.String())
		fmt.Println(time.Now().Format(time.RFC3339), err)
		ended <- err
		s.fail(err)
	}()
	if err := await(ended, component.ready.check); err != nil {
		return
	}
	s.set(component.name, "ready", "")
	s.report(component.name)
}

func (s *supervisor) start(component component) (*exec.Cmd, error) {
	log, err := os.Create(s.logFile(component.name))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	command := exec.Command(s.cluster.binary(component.name), component.arguments...)
	command.Env = append(os.Environ(), component.environment...)
	command.Stdout, command.Stderr = log, log
	return command, command.Start()
}

// apply gives the API server a file, or those of a folder, of the state folder.
func (s *supervisor) apply(path string) error {
	return s.runTool("kubectl", "--kubeconfig="+filepath.Join(s.cluster.Pki(), "admin.kubeconfig"),
		"apply", "--server-side", "-f", filepath.Join(s.cluster.StateDir, path))
}

// runTool runs a program that ends, and shows what it said if it failed.
func (s *supervisor) runTool(name string, arguments ...string) error {
	output, err := exec.Command(s.cluster.binary(name), arguments...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s failed (%w): %s", name, err, output)
	}
	return nil
}

func (s *supervisor) waitFor(names []string) {
	for _, name := range names {
		<-s.ready[name]
	}
}

func (s *supervisor) report(name string) {
	// A component of its own start (KWOK) has no one waiting.
	if ready, known := s.ready[name]; known {
		close(ready)
		fmt.Fprintf(s.progress, "%s after %.1f s\n", name, time.Since(s.started).Seconds())
	}
}

func (s *supervisor) fail(err error) {
	select {
	case s.failed <- err:
	default: // nobody reads any more once the cluster is ready
	}
}

func (s *supervisor) set(name, state, detail string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	now := ComponentStatus{name, state, detail}
	for i := range s.status.Components {
		if s.status.Components[i].Name == name {
			// The end of a program is the last word on it until it is started again.
			if s.status.Components[i].State != "ended" || state == "starting" {
				s.status.Components[i] = now
			}
			s.writeStatus()
			return
		}
	}
	s.status.Components = append(s.status.Components, now)
	s.writeStatus()
}

// writeStatus replaces the file in one step, so that no reader sees half of it.
func (s *supervisor) writeStatus() {
	content, err := json.MarshalIndent(s.status, "", "  ")
	if err == nil {
		if err = os.WriteFile(s.statusFile()+".new", content, 0o644); err == nil {
			err = os.Rename(s.statusFile()+".new", s.statusFile())
		}
	}
	if err != nil {
		fmt.Println("cannot write the status:", err)
	}
}

func (s *supervisor) statusFile() string { return filepath.Join(s.cluster.StateDir, "status.json") }

func (s *supervisor) logFile(name string) string {
	return filepath.Join(s.cluster.StateDir, "logs", name+".log")
}
