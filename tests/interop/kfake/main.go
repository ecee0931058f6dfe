// A broker that is no Kafka: franz-go's kfake, one node that keeps its state in a folder. `kfake PORT FOLDER`; SIGTERM
// ends it in order.
package main

import (
	"os"
	"os/signal"
	"strconv"
	"syscall"

	"github.com/twmb/franz-go/pkg/kfake"
)

func main() {
	port, err := strconv.Atoi(os.Args[1])
	if err != nil {
		panic(err)
	}
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.Ports(port), kfake.DataDir(os.Args[2]))
	if err != nil {
		panic(err)
	}
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGTERM)
	<-asked
	cluster.Close()
}
