// Devnode runs a development cluster in namespaces of its own: process ids,
// mounts, network, host name. What is started inside ends with the first process
// in there, so that nothing of a cluster can outlive it.
//
// The commands are meant for `cargo xtask cluster`, which decides on names and
// addresses and writes them into the description file.
package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
)

const usage = "usage: devnode up|init|supervise DESCRIPTION.json, or devnode registry|metrics-server DESCRIPTION.json, or devnode fake-nodes DESCRIPTION.json COUNT"

func main() {
	if len(os.Args) < 3 {
		fail(errors.New(usage))
	}
	cluster, err := readCluster(os.Args[2])
	if err != nil {
		fail(err)
	}
	switch os.Args[1] {
	case "up":
		err = up(cluster)
	case "init":
		err = runInit(cluster)
	case "supervise":
		err = supervise(cluster)
	case "registry":
		err = request(cluster, registryComponent(cluster).name)
	case "metrics-server":
		err = request(cluster, metricsServerComponent(cluster).name)
	case "fake-nodes":
		count := 0
		if len(os.Args) == 4 {
			count, err = strconv.Atoi(os.Args[3])
		}
		if err == nil {
			err = addFakeNodes(cluster, count)
		}
	default:
		err = errors.New(usage)
	}
	if err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
