// One step of decoding, with net/http: go run sample.go [http://HOST:PORT]
package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
)

const vocabSize = 8

func main() {
	log.SetFlags(0)
	address := "http://127.0.0.1:8090"
	if len(os.Args) > 1 {
		address = os.Args[1]
	}

	// The last position's logits of two sequences, [batchSize, vocabSize]; here: made up.
	logits := make([]float32, 2*vocabSize)
	for token := 0; token < vocabSize; token++ {
		logits[token] = float32(token*7%11) * 0.5
		logits[vocabSize+token] = float32(token*5%11) * 0.5
	}
	var body bytes.Buffer
	if err := binary.Write(&body, binary.LittleEndian, logits); err != nil {
		log.Fatal(err)
	}

	query := url.Values{
		"vocab_size":  {strconv.Itoa(vocabSize)},
		"temperature": {"0.7,1.0"}, // one value for all rows, or one a row
		"top_k":       {"40"},
		"top_p":       {"0.95"},
		"seed":        {"11,12"},
		"offset":      {"3"}, // tokens that were drawn before this one
		"n":           {"4"},
	}
	client := http.Client{Timeout: 30 * time.Second}
	response, err := client.Post(address+"/sample?"+query.Encode(), "application/octet-stream", &body)
	if err != nil {
		log.Fatal(err)
	}
	defer response.Body.Close()

	var answer struct {
		TokenIDs [][]int32 `json:"token_ids"`
		Error    struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		log.Fatal(err)
	}
	if response.StatusCode != http.StatusOK {
		log.Fatalf("%d: %s", response.StatusCode, answer.Error.Message)
	}

	for _, tokenIDs := range answer.TokenIDs {
		fmt.Println(strings.Trim(fmt.Sprint(tokenIDs), "[]"))
	}
}
