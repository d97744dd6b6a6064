//go:build !before1_34 && before1_36

package main

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
)

type (
	eventRecorder = events.EventRecorder
	tried         = *v1.Pod
)

func podOf(pod tried) *v1.Pod { return pod }
