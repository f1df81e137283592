"""The families' networks as lists of layers, for every contestant to build.

The rules are those of crates/spec/src/family/. A layer is a dict with its
kind and all its sizes, so that a contestant needs no rule of its own:

    {"kind": "dense", "inputs": 784, "image": [28, 28, 1], "units": 10, "bias": True}
    {"kind": "conv", "inputs": 1, "channels": 6, "kernel": 5, "stride": 1, "padding": 2, "bias": True}
    {"kind": "norm", "channels": 6}
    {"kind": "relu"}, {"kind": "max-pool"}, {"kind": "global-average-pool"}, {"kind": "flatten"}
    {"kind": "residual", "body": [...], "shortcut": [...]}

Pools are 2×2; `image` is the height, width and channels that are flattened; an empty shortcut is the identity.
"""


class Builder:
    """Collects the layers of one network, and knows the shape that reaches the next."""

    def __init__(self, height, width, channels, batch_norm):
        self.height, self.width, self.channels = height, width, channels
        self.batch_norm = batch_norm
        self.layers = []

    def conv(self, channels, kernel, stride=1, padding=0):
        self.layers.append(
            {
                "kind": "conv",
                "inputs": self.channels,
                "channels": channels,
                "kernel": kernel,
                "stride": stride,
                "padding": padding,
                "bias": not self.batch_norm,
            }
        )
        self.channels = channels
        self.height = (self.height + 2 * padding - kernel) // stride + 1
        self.width = (self.width + 2 * padding - kernel) // stride + 1

    def dense(self, units, bias):
        inputs = self.height * self.width * self.channels
        image = [self.height, self.width, self.channels]
        self.layers.append(
            {"kind": "dense", "inputs": inputs, "image": image, "units": units, "bias": bias}
        )
        self.height, self.width, self.channels = 1, 1, units

    def norm_and_relu(self):
        if self.batch_norm:
            self.layers.append({"kind": "norm", "channels": self.channels})
        self.layers.append({"kind": "relu"})

    def max_pool(self):
        self.layers.append({"kind": "max-pool"})
        self.height, self.width = self.height // 2, self.width // 2

    def hidden_dense(self, units):
        self.dense(units, bias=not self.batch_norm)
        self.norm_and_relu()

    def block(self, channels, stride):
        """A pre-activation block; where the shape changes, the projection reads the activated input."""
        reached = (self.height, self.width, self.channels)
        outer, self.layers = self.layers, []
        self.norm_and_relu()
        opening, self.layers = self.layers, []
        self.conv(channels, 3, stride, 1)
        self.norm_and_relu()
        self.conv(channels, 3, 1, 1)
        body, self.layers = self.layers, outer
        if reached[2] == channels and stride == 1:
            self.layers.append({"kind": "residual", "body": opening + body, "shortcut": []})
            return
        self.height, self.width, self.channels = reached
        self.layers = []
        self.conv(channels, 1, stride)
        shortcut, self.layers = self.layers, outer
        self.layers += opening + [{"kind": "residual", "body": body, "shortcut": shortcut}]


def layers(network):
    """The layers of a network as `noisescale bench --json` describes it."""
    height, width, channels = network["input"]
    build = Builder(height, width, channels, network["batch_norm"])
    w = network["width"]
    match network["family"]:
        case "mlp":
            build.layers.append({"kind": "flatten"})
            for _ in range(network["hidden"]):
                build.hidden_dense(w)
        case "cnn":
            # A 28×28 image is padded to LeNet-5's 32×32 by the first convolution.
            for channels, padding in [(3 * w, 2 if height < 32 else 0), (8 * w, 0)]:
                build.conv(channels, 5, 1, padding)
                build.norm_and_relu()
                build.max_pool()
            build.layers.append({"kind": "flatten"})
            build.hidden_dense(60 * w)
            build.hidden_dense(42 * w)
        case "wrn":
            build.conv(16, 3, 1, 1)
            for group in (1, 2, 3):
                for block in (1, 2):
                    build.block((8 << group) * w, 2 if group > 1 and block == 1 else 1)
            build.norm_and_relu()
            build.layers.append({"kind": "global-average-pool"})
            build.height = build.width = 1
        case family:
            raise ValueError(f"no rule for family {family}; add it to {__file__}")
    build.dense(network["classes"], bias=True)
    return build.layers


def parameter_count(layers):
    """Number of learned values."""
    return sum(map(parameters_of, layers))


def parameters_of(layer):
    match layer["kind"]:
        case "dense":
            return layer["units"] * (layer["inputs"] + layer["bias"])
        case "conv":
            return layer["channels"] * (layer["inputs"] * layer["kernel"] ** 2 + layer["bias"])
        case "norm":
            return 2 * layer["channels"]
        case "residual":
            return parameter_count(layer["body"]) + parameter_count(layer["shortcut"])
    return 0
