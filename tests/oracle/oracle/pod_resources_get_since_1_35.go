//go:build since1_35

package main

// getFindsEndedPods says whether the kubelet's provider, which this program stands in for, finds pods that have ended.
// Source: pkg/kubelet/kubelet.go, kubeletPodsProvider.GetPodByName (kubernetes v1.35.4).
const getFindsEndedPods = false
