//go:build !before1_34

// Command scores says which nodes a pod fits and what the real scheduler's plugins give each, JSON line by JSON line:
// each command has a cluster of its own, and nothing is kept.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/profile"

	"simkubelet/oracle/wire"
)

const hangLimit = 10 * time.Second

type cluster struct {
	// Nodes are asked in this order.
	Nodes   []*v1.Node                   `json:"nodes"`
	Pods    []*v1.Pod                    `json:"pods"`
	Claims  []*resourceapi.ResourceClaim `json:"claims"`
	Classes []*resourceapi.DeviceClass   `json:"classes"`
	Slices  []*resourceapi.ResourceSlice `json:"slices"`
	// Pod is the one to schedule.
	Pod *v1.Pod `json:"pod"`
}

func main() {
	flags := flag.NewFlagSet("klog", flag.PanicOnError)
	klog.InitFlags(flags)
	_ = flags.Set("logtostderr", "false")
	_ = flags.Set("stderrthreshold", "FATAL")
	klog.SetOutput(io.Discard)
	loop := wire.Loop{HangLimit: hangLimit, Handlers: map[string]wire.Handler{
		"scores":  wire.Handle(cluster.scores),
		"plugins": wire.Handle(cluster.plugins),
	}}
	if err := loop.Run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "error: %v\n", err)
		os.Exit(2)
	}
}

func objects[T runtime.Object](some []T) []runtime.Object {
	all := make([]runtime.Object, 0, len(some))
	for _, one := range some {
		all = append(all, one)
	}
	return all
}

// profile makes a scheduler with the default configuration, which has seen the cluster.
func (c cluster) profile(ctx context.Context) (framework.Framework, error) {
	all := append(objects(c.Nodes), objects(c.Pods)...)
	all = append(append(append(all, objects(c.Claims)...), objects(c.Classes)...), objects(c.Slices)...)
	client := fake.NewSimpleClientset(all...)
	factory := informers.NewSharedInformerFactory(client, 0)
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: client.EventsV1()})
	made, err := scheduler.New(ctx, client, factory, nil, profile.NewRecorderFactory(broadcaster))
	if err != nil {
		return nil, err
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	if err := made.WaitForHandlersSync(ctx); err != nil {
		return nil, err
	}
	chosen := made.Profiles[v1.DefaultSchedulerName]
	return chosen, made.Cache.UpdateSnapshot(klog.Background(), chosen.SnapshotSharedLister().(*cache.Snapshot))
}

// scores answers with the nodes that the pod fits and the scores of each plugin, or with the error of the try.
func (c cluster) scores() (wire.Answer, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	chosen, err := c.profile(ctx)
	if err != nil {
		return nil, err
	}
	state := framework.NewCycleState()
	named, status, _ := chosen.RunPreFilterPlugins(ctx, state, c.Pod)
	if status.IsRejected() {
		return wire.Answer{"nodes": []string{}}, nil
	}
	if !status.IsSuccess() {
		return failed(status), nil
	}
	names, feasible := []string{}, []fwk.NodeInfo{}
	for _, node := range c.Nodes {
		if !named.AllNodes() && !named.NodeNames.Has(node.Name) {
			continue
		}
		info, err := chosen.SnapshotSharedLister().NodeInfos().Get(node.Name)
		if err != nil {
			return nil, err
		}
		status := chosen.RunFilterPluginsWithNominatedPods(ctx, state, c.Pod, info)
		if status.Code() == fwk.Error {
			return failed(status), nil
		}
		if status.IsSuccess() {
			names, feasible = append(names, node.Name), append(feasible, info)
		}
	}
	if len(feasible) < 2 {
		return wire.Answer{"nodes": names}, nil
	}
	if status := chosen.RunPreScorePlugins(ctx, state, c.Pod, feasible); !status.IsSuccess() {
		return failed(status), nil
	}
	found, status := chosen.RunScorePlugins(ctx, state, c.Pod, feasible)
	if !status.IsSuccess() {
		return failed(status), nil
	}
	totals, parts := map[string]int64{}, map[string]map[string]int64{}
	for _, each := range found {
		totals[each.Name], parts[each.Name] = each.TotalScore, map[string]int64{}
		for _, part := range each.Scores {
			parts[each.Name][part.Name] = part.Score
		}
	}
	return wire.Answer{"nodes": names, "scores": totals, "parts": parts}, nil
}

func failed(status *fwk.Status) wire.Answer {
	return wire.Answer{"error": status.AsError().Error()}
}

// plugins answers with the plugins of each extension point, with their weights.
func (c cluster) plugins() (wire.Answer, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	chosen, err := c.profile(ctx)
	if err != nil {
		return nil, err
	}
	return wire.Answer{"plugins": chosen.ListPlugins()}, nil
}
