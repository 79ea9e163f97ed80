"""What HTTP clients say of an answer or of none, as they write it, with the code of the set `gateway`."""

GW_4XX = (
    ("urllib.error.HTTPError", "HTTP Error 404: Not Found"),
    ("urllib.error.HTTPError", "HTTP Error 404: File not found"),
    ("HTTPError", "400 Client Error: Bad Request for url: https://pay.example/v1/charges"),
    ("HTTPError", "422 Client Error: Unprocessable Entity for url: https://pay.example/v1"),
    ("HTTPError", "404 Client Error: for url: https://pay.example/status/503"),
    (
        "aiohttp.client_exceptions.ClientResponseError",
        "400, message='Bad Request', url='https://pay.example/v1'",
    ),
    (
        "httpx.HTTPStatusError",
        (
            "Client error '404 Not Found' for url 'https://pay.example/v1'\n"
            "For more information check: https://developer.mozilla.org/en-US/docs/Web/HTTP/Status/404"
        ),
    ),
    (
        "System.Net.Http.HttpRequestException",
        "Response status code does not indicate success: 400 (Bad Request).",
    ),
    ("Refit.ApiException", "Response status code does not indicate success: 404 (Not Found)."),
    ("System.Net.WebException", "The remote server returned an error: (404) Not Found."),
    (
        "Flurl.Http.FlurlHttpException",
        "Call failed with status code 404 (Not Found): GET https://x",
    ),
    ("System.Net.Http.HttpRequestException", "Request failed with status code NotFound"),
    (
        "org.springframework.web.client.HttpClientErrorException$BadRequest",
        "400 Bad Request: [no body]",
    ),
    (
        "org.springframework.web.client.HttpClientErrorException$NotFound",
        '404 Not Found: "{"error":"no such order"}"',
    ),
    ("org.springframework.web.client.HttpClientErrorException", "499 : [no body]"),
    (
        "org.springframework.web.reactive.function.client.WebClientResponseException$NotFound",
        "404 Not Found from GET http://pay.example/v1",
    ),
    (
        "java.io.IOException",
        "Server returned HTTP response code: 400 for URL: http://pay.example/v1",
    ),
    (
        "feign.FeignException$NotFound",
        "[404 Not Found] during [GET] to [http://pay/v1] [Pay#get()]: []",
    ),
    ("feign.FeignException", "status 404 reading Pay#get(String)"),
    ("retrofit2.HttpException", "HTTP 404 Not Found"),
    ("jakarta.ws.rs.NotFoundException", "HTTP 404 Not Found"),
    (
        "java.io.IOException",
        "Unexpected code Response{protocol=http/1.1, code=404, message=Not Found, url=https://x}",
    ),
    ("org.apache.http.client.HttpResponseException", "status code: 404, reason phrase: Not Found"),
    ("AxiosError", "Request failed with status code 400"),
    ("HTTPError", "Response code 404 (Not Found)"),
    ("HTTPError", "Request failed with status code 404 (Not Found): GET https://pay.example/v1"),
    ("HTTPError", "Request failed with status code 404 Not Found: GET https://pay.example/v1"),
    ("ResponseStatusCodeError", "Response status code 400: Bad Request"),
    ("Error", "HTTP error! status: 404"),
    ("Error", "HTTP error! Status: 404"),
    ("Error", "Not Found"),
    ("HttpErrorResponse", "Http failure response for https://pay.example/v1: 404 Not Found"),
    (
        "GuzzleHttp\\Exception\\ClientException",
        "Client error: `GET https://pay.example/v1` resulted in a `404 Not Found` response:\n{}",
    ),
    (
        "Symfony\\Component\\HttpClient\\Exception\\ClientException",
        'HTTP/2 404 returned for "https://pay.example/v1".',
    ),
    (
        "Symfony\\Component\\HttpClient\\Exception\\ClientException",
        'HTTP/1.1 404 Not Found returned for "https://pay.example/v1".',
    ),
    (
        "Illuminate\\Http\\Client\\RequestException",
        'HTTP request returned status code 404:\n{"error":"no"}',
    ),
    ("ErrorException", "failed to open stream: HTTP request failed! HTTP/1.1 404 Not Found"),
    ("Faraday::ResourceNotFound", "the server responded with status 404"),
    ("Faraday::BadRequestError", "the server responded with status 400 for GET https://x"),
    ("Net::HTTPClientException", '404 "Not Found"'),
    ("RestClient::NotFound", "404 Not Found"),
    ("RestClient::NotFound", "404 Resource Not Found"),
    ("reqwest::Error", "HTTP status client error (404 Not Found) for url (https://pay.example/v1)"),
    ("ureq::Error", "https://pay.example/v1: status code 404"),
    ("*errors.errorString", "unexpected status code: 404"),
    ("*errors.errorString", "bad status: 404 Not Found"),
    ("*fmt.wrapError", "charge: unexpected response: 400 Bad Request"),
    ("*errors.errorString", "server returned 404"),
    ("CurlError", "The requested URL returned error: 404"),
    ("CurlError", "curl: (22) The requested URL returned error: 404 Not Found"),
    ("HttpException", "Invalid statusCode: 404, uri = https://pay.example/v1"),
    (
        "googleapiclient.errors.HttpError",
        '<HttpError 404 when requesting https://x returned "Not Found">',
    ),
    (
        "botocore.exceptions.ClientError",
        "An error occurred (404) when calling the HeadObject operation: Not Found",
    ),
    ("HTTPError", "408 Client Error: Request Timeout for url: https://pay.example/v1"),
    ("HTTPError", "429 Client Error: Too Many Requests for url: https://pay.example/v1"),
    ("AxiosError", "Request failed with status code 429"),
)

GW_5XX = (
    ("urllib.error.HTTPError", "HTTP Error 501: Unsupported method ('POST')"),
    ("HTTPError", "502 Server Error: Bad Gateway for url: https://pay.example/v1"),
    ("HTTPError", "503 Server Error: for url: https://pay.example/status/404"),
    ("aiohttp.client_exceptions.ClientResponseError", "503, message='', url='https://x'"),
    ("httpx.HTTPStatusError", "Server error '502 Bad Gateway' for url 'https://pay.example/v1'"),
    (
        "System.Net.Http.HttpRequestException",
        "Response status code does not indicate success: 502 (Bad Gateway).",
    ),
    ("System.Net.WebException", "The remote server returned an error: (503) Server Unavailable."),
    ("System.Net.Http.HttpRequestException", "Request failed with status code BadGateway"),
    (
        "org.springframework.web.client.HttpServerErrorException$BadGateway",
        "502 Bad Gateway: [no body]",
    ),
    ("java.io.IOException", "Server returned HTTP response code: 503 for URL: http://pay.example"),
    (
        "feign.FeignException$ServiceUnavailable",
        "[503 Service Unavailable] during [GET] to [http://x]",
    ),
    ("AxiosError", "Request failed with status code 502"),
    ("HTTPError", "Response code 503 (Service Unavailable)"),
    (
        "GuzzleHttp\\Exception\\ServerException",
        "Server error: `POST https://x` resulted in a `503 Service Unavailable` response:\n",
    ),
    ("Faraday::ServerError", "the server responded with status 500"),
    ("reqwest::Error", "HTTP status server error (502 Bad Gateway) for url (https://x)"),
    ("*errors.errorString", "bad status: 503 Service Unavailable"),
    ("MaxRetryError", "too many 502 error responses"),
    ("CurlError", "The requested URL returned error: 500 Internal Server Error"),
    # Nobody answered: an error of the network is one of the gateway.
    ("httpx.ConnectError", "[Errno 111] Connection refused"),
    ("urllib.error.URLError", "<urlopen error [Errno 111] Connection refused>"),
    (
        "requests.exceptions.ConnectionError",
        (
            "HTTPConnectionPool(host='x', port=404): Max retries exceeded with url: /status/404 (Caused "
            "by NewConnectionError('Failed to establish a new connection: Connection refused'))"
        ),
    ),
    ("System.Net.Http.HttpRequestException", "Connection refused (localhost:5005)"),
    ("java.net.ConnectException", "Connection refused"),
    ("feign.RetryableException", "Connection refused executing GET http://pay/v1"),
    ("java.io.IOException", "Connection reset by peer"),
    ("AxiosError", "connect ECONNREFUSED 127.0.0.1:80"),
    ("AxiosError", "getaddrinfo ENOTFOUND pay.example"),
    ("TypeError", "fetch failed: connect ECONNREFUSED 127.0.0.1:80"),
    ("GuzzleHttp\\Exception\\ConnectException", "cURL error 7: Failed to connect to x port 80"),
    ("*url.Error", 'Get "http://x": dial tcp 127.0.0.1:1: connect: connection refused'),
    ("*errors.errorString", "lookup pay.example: no such host"),
)

GW_TIMEOUT = (
    ("httpx.ReadTimeout", "The read operation timed out"),
    (
        "System.Threading.Tasks.TaskCanceledException",
        "The request was canceled due to the configured HttpClient.Timeout",
    ),
    ("AxiosError", "timeout of 5000ms exceeded"),
    ("*url.Error", 'Get "http://x": context deadline exceeded (Client.Timeout exceeded)'),
    ("GuzzleHttp\\Exception\\ConnectException", "cURL error 28: Operation timed out after 5000 ms"),
    ("urllib.error.URLError", "<urlopen error timed out>"),
    ("java.io.IOException", "Read timed out"),
    ("Error", "ESOCKETTIMEDOUT"),
)

UNKNOWN = (
    ("Shop.Full", "400 left"),
    ("Shop.Full", "400 Orders left"),
    ("ValueError", "item 404 costs 502"),
    ("KeyError", "'4040'"),
    ("Shop.Wrong", "order 1404 is HTTP only"),
    ("Shop.Wrong", "HTTP 4040"),
)
"""Numbers that are no status."""
