"""A number that changes in each step makes torch.compile compile anew."""

import torch
import torch.nn.functional as F
from harness import arguments, classifier, train


def main():
    args = arguments(__doc__)
    torch._dynamo.config.recompile_limit = 1000
    torch._dynamo.config.accumulated_recompile_limit = 1000
    model = classifier(256, layers=4)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    features, labels = torch.rand(256, 256), torch.randint(10, (256,))

    @torch.compile(backend="aot_eager", dynamic=False)
    def loss_of(output, scale):
        return F.cross_entropy(output * scale, labels)

    def step(number):
        optimizer.zero_grad()
        scale = 1.0 + number / 100
        if args.mended:
            scale = torch.tensor(scale)
        loss = loss_of(model(features), scale)  # finding: SL026
        loss.backward()
        optimizer.step()

    train(args, range(args.steps), step)


if __name__ == "__main__":
    main()
