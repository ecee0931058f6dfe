// franz-go, sarama and segmentio's kafka-go: does the named operations with one of them, and says of each in one line
// how it went.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

const (
	records     = 20
	firstTimeMs = int64(1_700_000_000_000)
)

var errLacks = errors.New("the library has no such thing")

type client interface {
	perform(ctx context.Context, operation string) (string, error)
}

func main() {
	bootstrap, topic := strings.Split(os.Args[2], ","), os.Args[3]
	seconds, err := strconv.ParseFloat(os.Args[4], 64)
	if err != nil {
		panic(err)
	}
	limit := time.Duration(seconds * float64(time.Second))
	var used client
	switch os.Args[1] {
	case "franz-go":
		used = franz{bootstrap, topic}
	case "sarama":
		used = saramaClient{bootstrap, topic}
	case "segmentio":
		used = segmentio{bootstrap, topic}
	}
	for _, operation := range os.Args[5:] {
		begun := time.Now()
		ended := make(chan string, 1)
		go func() {
			told, err := used.perform(context.Background(), operation)
			switch {
			case errors.Is(err, errLacks):
				ended <- "lacks\t"
			case err != nil:
				ended <- "fails\t" + err.Error()
			default:
				ended <- "ok\t" + told
			}
		}()
		outcome := "hangs\t"
		select {
		case outcome = <-ended:
		case <-time.After(limit):
		}
		fmt.Printf("%s\t%.1f\t%s\n", operation, time.Since(begun).Seconds(), strings.ReplaceAll(outcome, "\n", " "))
	}
	os.Exit(0) // what hangs must not keep the process
}

func value(number int) []byte { return []byte(fmt.Sprintf("value %d", number)) }

func at(number int) time.Time { return time.UnixMilli(firstTimeMs + int64(number)) }
