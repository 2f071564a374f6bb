"""Each image is made smaller anew each time it is loaded."""

import torch
import torch.nn.functional as F
from harness import arguments, train
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Images(Dataset):
    def __init__(self, samples, size, resized):
        generator = torch.Generator().manual_seed(0)
        images = torch.rand(16, 3, size, size, generator=generator)
        self.images = F.interpolate(images, size=(64, 64), mode="bilinear") if resized else images
        self.resized = resized
        self.samples = samples

    def __len__(self):
        return self.samples

    def __getitem__(self, index):
        image = self.images[index % len(self.images)]
        if not self.resized:
            image = F.interpolate(image[None], size=(64, 64), mode="bilinear", antialias=True)[0]  # finding: SL010
        return image, index % 10


def main():
    args = arguments(__doc__)
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, stride=2), nn.ReLU(), nn.Conv2d(16, 32, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.LazyLinear(10)
    )
    model(torch.rand(1, 3, 64, 64))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    def step(batch):
        images, labels = batch
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()

    train(args, DataLoader(Images(16 * args.steps, 512, args.mended), batch_size=16), step)


if __name__ == "__main__":
    main()
