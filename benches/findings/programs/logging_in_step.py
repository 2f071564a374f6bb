"""Each step logs statistics of each parameter."""

import logging
import tempfile

import torch
import torch.nn.functional as F
from harness import arguments, classifier, train

log = logging.getLogger("train")


def main():
    args = arguments(__doc__)
    model = classifier(128, layers=24)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    features, labels = torch.rand(64, 128), torch.randint(10, (64,))

    def report(loss):
        values = loss.detach().expand(400).tolist()
        for position, value in enumerate(values):
            log.info("loss of sample %d: %.4f", position, value)  # finding: SL029

    def step(_):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(features), labels)
        loss.backward()
        optimizer.step()
        if not args.mended:
            report(loss)

    with tempfile.NamedTemporaryFile("w", suffix=".log") as file:
        logging.basicConfig(filename=file.name, level=logging.INFO)
        train(args, range(args.steps), step)


if __name__ == "__main__":
    main()
