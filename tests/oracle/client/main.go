// Makes one call to a server on a Unix socket, dialled as a kubelet dials: `client KIND SOCKET`.
//
// KIND is "watched" for GetInfo of a plugin that the kubelet finds, "plugin" for a device plugin, and "driver" for a
// DRA driver. The answer does not matter; the library is that of the kubelet's minor, with what its other packages
// register.
package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	_ "google.golang.org/grpc/encoding/gzip"
	"google.golang.org/protobuf/types/known/emptypb"
)

const limit = 10 * time.Second

func dialUnix(ctx context.Context, address string) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, "unix", address)
}

func dial(kind, socket string) (*grpc.ClientConn, error) {
	target := socket
	options := []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}
	switch {
	case kind == "driver" && !driversByPath:
		target = "unix:" + socket
	case kind == "plugin":
		options = append(options, grpc.WithAuthority("localhost"), grpc.WithContextDialer(dialUnix))
	default:
		options = append(options, grpc.WithContextDialer(dialUnix))
	}
	return grpc.Dial(target, options...)
}

func main() {
	if len(os.Args) != 3 || !strings.Contains("watched plugin driver", os.Args[1]) {
		fmt.Fprintln(os.Stderr, "usage: client watched|plugin|driver SOCKET")
		os.Exit(2)
	}
	connection, err := dial(os.Args[1], os.Args[2])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	defer connection.Close()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	_ = connection.Invoke(ctx, "/service/Method", &emptypb.Empty{}, &emptypb.Empty{})
}
