"""Each step waits for a queue that a slow thread fills: started before the loop, with room for several, it would be a step ahead."""

import queue
import threading
import time

import torch
import torch.nn.functional as F
from harness import arguments, classifier, train


def produce(batches, count):
    for _ in range(count):
        time.sleep(0.01)  # a slow source
        batches.put((torch.rand(256, 256), torch.randint(10, (256,))))


def main():
    args = arguments(__doc__)
    model = classifier(256, layers=12)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    batches = queue.Queue(args.steps)

    def step(number):
        if not args.mended:
            produce_one = threading.Thread(target=produce, args=(batches, 1))
            produce_one.start()
        features, labels = batches.get()  # finding: SL039
        optimizer.zero_grad()
        F.cross_entropy(model(features), labels).backward()
        optimizer.step()

    if args.mended:
        producer = threading.Thread(target=produce, args=(batches, args.steps), daemon=True)
        producer.start()
        producer.join()
    train(args, range(args.steps), step)


if __name__ == "__main__":
    main()
