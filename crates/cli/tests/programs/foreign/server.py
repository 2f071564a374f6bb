"""An asyncio server that answers with a model, asked by clients in threads."""

import asyncio
import queue
import socket
import threading

import torch
from harness import digest, main
from torch import nn


def program():
    model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 3)).eval()
    ports, answers = queue.Queue(), {}

    def infer(seed):
        with torch.no_grad():
            return digest(model(torch.randn(2, 8, generator=torch.Generator().manual_seed(seed))))

    async def handle(reader, writer):
        while line := await reader.readline():
            answer = await asyncio.get_running_loop().run_in_executor(None, infer, int(line))
            writer.write(answer.encode() + b"\n")
            await writer.drain()
        writer.close()

    async def serve(stop):
        server = await asyncio.start_server(handle, "127.0.0.1", 0)
        async with server:
            ports.put(server.sockets[0].getsockname()[1])
            await asyncio.to_thread(stop.wait)

    def client(number, port):
        with socket.create_connection(("127.0.0.1", port)) as connection, connection.makefile("rw") as file:
            for seed in range(number, 40, 4):
                file.write(f"{seed}\n")
                file.flush()
                answers[seed] = file.readline().strip()

    stop = threading.Event()
    server = threading.Thread(target=lambda: asyncio.run(serve(stop)), name="server")
    server.start()
    port = ports.get()
    clients = [threading.Thread(target=client, args=(number, port)) for number in range(4)]
    for thread in clients:
        thread.start()
    for thread in clients:
        thread.join()
    stop.set()
    server.join()
    print("answers", len(answers), digest(sorted(answers.items())))


main(program)
