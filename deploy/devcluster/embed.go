// Package devcluster holds the files that configure a development cluster.
// They are templates over the fields of cmd/devnode's cluster description.
package devcluster

import "embed"

// Files holds config/ (one file per component), manifests/ (applied to every
// new cluster) and kwok/ (how pods behave on fake nodes).
//
//go:embed config manifests kwok
var Files embed.FS
