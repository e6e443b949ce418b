package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
)

// writePauseImage packs the program pause as a docker-archive: one layer with
// one static file.
func writePauseImage(program, name, target string) error {
	content, err := os.ReadFile(program)
	if err != nil {
		return fmt.Errorf("cannot read the pause program: %w", err)
	}
	layer, err := pack(member{"pause", content, 0o755})
	if err != nil {
		return err
	}
	config, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH,
		"os":           "linux",
		"config":       map[string]any{"Entrypoint": []string{"/pause"}},
		"rootfs":       map[string]any{"type": "layers", "diff_ids": []string{fmt.Sprintf("sha256:%x", sha256.Sum256(layer))}},
	})
	if err != nil {
		return err
	}
	manifest, err := json.Marshal([]map[string]any{
		{"Config": "config.json", "RepoTags": []string{name}, "Layers": []string{"layer.tar"}},
	})
	if err != nil {
		return err
	}
	archive, err := pack(member{"config.json", config, 0o644}, member{"layer.tar", layer, 0o644}, member{"manifest.json", manifest, 0o644})
	if err != nil {
		return err
	}
	return os.WriteFile(target, archive, 0o644)
}

type member struct {
	name    string
	content []byte
	mode    int64
}

func pack(members ...member) ([]byte, error) {
	var archive bytes.Buffer
	writer := tar.NewWriter(&archive)
	for _, member := range members {
		header := &tar.Header{Name: member.name, Mode: member.mode, Size: int64(len(member.content))}
		if err := writer.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := writer.Write(member.content); err != nil {
			return nil, err
		}
	}
	return archive.Bytes(), writer.Close()
}
