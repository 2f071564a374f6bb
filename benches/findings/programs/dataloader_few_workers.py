"""One worker reads batches more slowly than training takes them."""
# finding anywhere: SL009

from harness import arguments, train_on_slow_samples


def main():
    args = arguments(__doc__)
    # As many as the finding tells to add.
    train_on_slow_samples(args, workers=5 if args.mended else 1)


if __name__ == "__main__":
    main()
