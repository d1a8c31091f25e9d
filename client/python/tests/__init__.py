import os

os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # gRPC would tell of handshakes that are meant to fail
