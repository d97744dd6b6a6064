// Command protobuf uses a cluster with protobuf only, and prints what the real types make of the answers: a JSON line
// for the object that it creates, one for a list, one for each event of a watch, one for metadata and one for a refusal.
//
// Its argument is the version of resource.k8s.io of the ResourceSlice in its standard input.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"os"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const protobuf = "application/vnd.kubernetes.protobuf"

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func show(what string, value any) {
	check(json.NewEncoder(os.Stdout).Encode(map[string]any{"what": what, "value": value}))
}

func main() {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	check(err)
	config.ContentType = protobuf
	config.AcceptContentTypes = protobuf
	version := schema.GroupVersion{Group: "resource.k8s.io", Version: os.Args[1]}
	ofVersion := rest.CopyConfig(config)
	ofVersion.GroupVersion = &version
	ofVersion.APIPath = "/apis"
	ofVersion.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	client, err := rest.RESTClientFor(ofVersion)
	check(err)
	ctx := context.Background()

	body, err := io.ReadAll(os.Stdin)
	check(err)
	object, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	check(err)
	watch, err := client.Get().Resource("resourceslices").Param("watch", "true").Watch(ctx)
	check(err)
	created := request(ctx, client.Post().Resource("resourceslices").Body(object))
	show("created", created)
	show("listed", request(ctx, client.Get().Resource("resourceslices")))
	metadataClient, err := metadata.NewForConfig(config)
	check(err)
	partial, err := metadataClient.Resource(version.WithResource("resourceslices")).List(ctx, metav1.ListOptions{})
	check(err)
	show("metadata", partial)
	show("deleted", request(ctx, client.Delete().Resource("resourceslices").Name("one")))
	for range 2 {
		event := <-watch.ResultChan()
		show(string(event.Type), event.Object)
	}
	watch.Stop()
	err = client.Get().Resource("resourceslices").Name("one").Do(ctx).Error()
	var refused apierrors.APIStatus
	if !errors.As(err, &refused) {
		log.Fatalf("no refusal: %v", err)
	}
	show("refused", refused.Status())
}

func request(ctx context.Context, asked *rest.Request) runtime.Object {
	result := asked.Do(ctx)
	var contentType string
	result.ContentType(&contentType)
	if contentType != protobuf {
		log.Fatalf("answered as %s", contentType)
	}
	object, err := result.Get()
	check(err)
	return object
}
