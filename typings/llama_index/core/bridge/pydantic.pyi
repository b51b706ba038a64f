from pydantic import PrivateAttr as PrivateAttr
