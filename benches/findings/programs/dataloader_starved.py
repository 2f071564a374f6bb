"""Batches are read in the program itself while training waits."""
# finding anywhere: SL009

from harness import arguments, train_on_slow_samples


def main():
    args = arguments(__doc__)
    # As many as the finding tells to add: with 4, steps would still wait for data (32 ms of sleep by 4 is more than a step).
    train_on_slow_samples(args, workers=6 if args.mended else 0)


if __name__ == "__main__":
    main()
