"""Serves on the port of Spark's UI what a hostile driver might serve, before Spark could."""

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PAGE = b"<html><head></head><body>hostile<script>document.body.append(' script')</script></body></html>"


class Hostile(BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/up":
            self.answers(302, b"", ("Location", "/../../applications"))
        elif self.path == "/large":
            self.answers(200, b"x" * (9 << 20))
        else:
            self.answers(
                200,
                PAGE,
                ("Content-Type", "text/html"),
                ("Set-Cookie", "page=evil; Path=/"),
                ("Content-Security-Policy", "default-src *"),
                ("Access-Control-Allow-Origin", "*"),
                ("Refresh", "0;url=/applications"),
                ("Service-Worker-Allowed", "/"),
            )

    def answers(self, code, body, *headers):
        self.send_response(code)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


server = ThreadingHTTPServer(("", 4050), Hostile)
print("serves", flush=True)
server.serve_forever()
