"""Serves a WSGI application over TLS."""

import socketserver
import ssl
import sys
from wsgiref import simple_server


class Server(socketserver.ThreadingMixIn, simple_server.WSGIServer):
    """A thread for each connection: a client opens some ahead of time."""

    daemon_threads = True

    def get_request(self):
        # The handshake is done by the connection's own thread, at its first read.
        connection, address = super().get_request()
        return self.tls.wrap_socket(connection, server_side=True, do_handshake_on_connect=False), address

    def handle_error(self, request, client_address):
        print(client_address, sys.exc_info()[1], flush=True)


def server(settings, app):
    """Listens at the address of the settings."""
    made = simple_server.make_server(settings["address"], settings["port"], app, server_class=Server)
    made.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.tls.load_cert_chain(settings["certificate"], settings["key"])
    return made
