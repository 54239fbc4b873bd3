"""A server that answers what it was told to: for what samplerd never says, and proxies do."""

import socketserver
import threading


def page(status, body, *headers):
    """An answer with a page of HTML."""
    content = body.encode()
    lines = [f"HTTP/1.1 {status}", "Content-Type: text/html", f"Content-Length: {len(content)}", *headers]
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + content


GOOD = page("200 OK", '{"token_ids":[[1]],"seed":7}')


class Handler(socketserver.StreamRequestHandler):
    def handle(self):
        while self.server.answers:
            length, head = 0, b""
            for line in iter(self.rfile.readline, b"\r\n"):
                if not line:
                    return
                head += line
                if line.lower().startswith(b"content-length:"):
                    length = int(line.split(b":")[1])
            self.server.heads.append(head.decode())
            answer = self.server.answers.pop(0)
            if isinstance(answer, Unread):
                self.wfile.write(answer.answer)
                return  # what has come and was not read makes a reset of the end
            self.rfile.read(length)
            self.wfile.write(answer)
            if not answer:
                return


class Unread:
    """An answer before the body is read, and the end of the connection."""

    def __init__(self, answer):
        self.answer = answer


class Canned(socketserver.ThreadingTCPServer):
    """Answers requests in turn; b"" ends the connection without one."""

    daemon_threads = True

    def __init__(self, *answers):
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers, self.heads = list(answers), []
        self.thread = threading.Thread(target=self.serve_forever, args=(0.01,))
        self.thread.start()

    @property
    def address(self):
        return f"http://127.0.0.1:{self.server_address[1]}"

    def __exit__(self, *_):
        self.shutdown()
        self.thread.join()
        self.server_close()
