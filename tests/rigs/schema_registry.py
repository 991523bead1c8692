"""A schema registry over HTTP, on a free port of loopback: the part of Confluent's documented REST interface that
serdes use.

Compatibility is Avro's backward rule for fields: a new field needs a default. `requests` are the paths in order.
"""

import json
import ssl
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit


class Refused(Exception):
    def __init__(self, status, code, message):
        super().__init__(message)
        self.status, self.body = status, {"error_code": code, "message": message}


class SchemaRegistryServer:
    def __init__(self, authorization=None):
        self.by_id = {}
        self.subjects = {}
        self.requests = []
        self.authorization = authorization
        #: Whether every request gets status 503.
        self.down = False
        self.lock = threading.Lock()

    def register(self, subject, schema, schema_type="AVRO", references=()):
        """The id, as POST /subjects/S/versions."""
        text = schema if isinstance(schema, str) else json.dumps(schema)
        body = {"schema": text, "schemaType": schema_type, "references": list(references)}
        return self.answer("POST", ["subjects", subject, "versions"], body)["id"]

    def answer(self, method, parts, body):
        with self.lock:
            match (method, *parts):
                case ("GET", "schemas", "ids", number):
                    if int(number) not in self.by_id:
                        raise Refused(404, 40403, "Schema not found")
                    return self.by_id[int(number)]
                case ("POST", "subjects", subject, "versions"):
                    return {"id": self._registered(subject, body)}
                case ("POST", "subjects", subject):
                    versions = self._versions(subject)
                    for version, schema_id in enumerate(versions, 1):
                        if self._same(self.by_id[schema_id], body):
                            return self._shown(subject, version)
                    raise Refused(404, 40403, "Schema not found")
                case ("GET", "subjects", subject, "versions", version):
                    count = len(self._versions(subject))
                    number = count if version == "latest" else int(version)
                    if not 1 <= number <= count:
                        raise Refused(404, 40402, "Version not found.")
                    return self._shown(subject, number)
            raise Refused(404, 404, "HTTP 404 Not Found")

    def admit(self, authorization):
        if self.down:
            raise Refused(503, 50301, "Service Unavailable")
        if self.authorization is not None and authorization != self.authorization:
            raise Refused(401, 401, "Unauthorized")

    def _versions(self, subject):
        if subject not in self.subjects:
            raise Refused(404, 40401, f"Subject '{subject}' not found.")
        return self.subjects[subject]

    def _shown(self, subject, version):
        schema_id = self.subjects[subject][version - 1]
        return {"subject": subject, "version": version, "id": schema_id, **self.by_id[schema_id]}

    def _registered(self, subject, body):
        kept = {"schema": body["schema"], "schemaType": body.get("schemaType", "AVRO")}
        kept["references"] = body.get("references") or []
        known = [number for number, schema in self.by_id.items() if self._same(schema, kept)]
        schema_id = known[0] if known else len(self.by_id) + 1
        versions = self.subjects.get(subject, [])
        if schema_id not in versions:
            if versions and kept["schemaType"] == "AVRO":
                self._check(json.loads(self.by_id[versions[-1]]["schema"]), json.loads(kept["schema"]))
            self.by_id[schema_id] = kept
            self.subjects[subject] = [*versions, schema_id]
        return schema_id

    @staticmethod
    def _same(left, right):
        def key(each):
            names = [(ref["name"], ref["subject"], ref["version"]) for ref in each.get("references") or []]
            return each["schema"], each.get("schemaType", "AVRO"), names

        return key(left) == key(right)

    @staticmethod
    def _check(old, new):
        names = {field["name"] for field in old.get("fields", ())}
        for field in new.get("fields", ()):
            if field["name"] not in names and "default" not in field:
                message = f"Schema being registered is incompatible: READER_FIELD_MISSING_DEFAULT_VALUE {field['name']}"
                raise Refused(409, 409, message)


def tls_of(certificate, clients=None):
    """The TLS of a server with a `trustme` certificate. `clients`: the authority whose certificates its clients must
    have."""
    found = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(found)
    if clients is not None:
        found.verify_mode = ssl.CERT_REQUIRED
        clients.configure_trust(found)
    return found


class _TlsServer(ThreadingHTTPServer):
    """Shakes hands in the thread of each connection, so that one that fails there holds up nobody."""

    def __init__(self, address, handler, tls):
        super().__init__(address, handler)
        self._tls = tls

    def finish_request(self, request, client_address):
        if self._tls is None:
            return super().finish_request(request, client_address)
        try:
            with self._tls.wrap_socket(request, server_side=True) as secured:
                return super().finish_request(secured, client_address)
        except OSError:
            return None  # the client does not trust the server, or has no certificate


@contextmanager
def schema_registry(authorization=None, tls=None):
    """The server, with its `url`; it ends with the context. `authorization`: the header that it asks for. `tls`: see
    `tls_of`."""
    found = SchemaRegistryServer(authorization)

    class Handler(BaseHTTPRequestHandler):
        def handle_any(self):
            path = urlsplit(self.path).path
            found.requests.append(path)
            size = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(size)) if size else None
            try:
                found.admit(self.headers.get("Authorization"))
                status, answer = 200, found.answer(self.command, [unquote(p) for p in path.split("/") if p], body)
            except Refused as refused:
                status, answer = refused.status, refused.body
            data = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = handle_any  # noqa: N815  # the names that the server calls

        def log_message(self, *_):
            pass

    server = _TlsServer(("127.0.0.1", 0), Handler, tls)
    found.url = f"{'http' if tls is None else 'https'}://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield found
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
