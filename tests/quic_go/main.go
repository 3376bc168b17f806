// A client of HTTP/3 by quic-go: `quic_go CA URL`. It gets the page, a large one, and an upload back, twice on connections of its own;
// the second one resumes the session of the first with early data. A line for each connection: protocol, sizes, and the use of early
// data.
package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
)

func main() {
	roots, url := x509.NewCertPool(), os.Args[2]
	pem, err := os.ReadFile(os.Args[1])
	if err != nil || !roots.AppendCertsFromPEM(pem) {
		log.Fatal("no certificate of a CA: ", err)
	}
	settings := &tls.Config{RootCAs: roots, ClientSessionCache: tls.NewLRUClientSessionCache(8)}
	for _, method := range []string{http.MethodGet, http3.MethodGet0RTT} {
		connect(settings, url, method)
	}
}

// Sends the requests of one connection, the first with this method.
func connect(settings *tls.Config, url, method string) {
	var connection *quic.Conn
	transport := &http3.Transport{
		TLSClientConfig: settings,
		Dial: func(ctx context.Context, address string, tls *tls.Config, config *quic.Config) (*quic.Conn, error) {
			it, err := quic.DialAddrEarly(ctx, address, tls, config)
			connection = it
			return it, err
		},
	}
	defer transport.Close()
	client := &http.Client{Transport: transport, Timeout: time.Minute}
	upload := bytes.Repeat([]byte("abcdefghijklmnopq"), 60_000)
	protocol, page := send(client, method, url+"/kept", nil)
	_, large := send(client, http.MethodGet, url+"/large", nil)
	_, echo := send(client, http.MethodPost, url+"/echo", upload)
	early := connection.ConnectionState().Used0RTT
	fmt.Println(protocol, string(page), len(large), bytes.Equal(upload, echo), early)
}

// Sends a request; the protocol and the body of its response.
func send(client *http.Client, method, url string, body []byte) (string, []byte) {
	request, err := http.NewRequest(method, url, bytes.NewReader(body))
	if err != nil {
		log.Fatal(err)
	}
	if body == nil {
		request.Body = http.NoBody
		request.ContentLength = 0
	}
	response, err := client.Do(request)
	if err != nil {
		log.Fatal(method, " ", url, ": ", err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		log.Fatal(method, " ", url, ": ", response.Status, " ", err)
	}
	return response.Proto, content
}
